// Who is signed in: Cognito's hosted page, authorization code with PKCE, tokens in this tab only.

const TOKENS = "oncely.tokens";
const UNDER_WAY = "oncely.sign-in";
// A token is renewed this long before its end, so that no request arrives with a dead one.
const MARGIN_MS = 30_000;

let config;
let renewal = null;

const here = () => `${location.origin}/`;
const held = () => JSON.parse(sessionStorage.getItem(TOKENS) ?? "null");

/** Read the settings, and finish a sign-in that comes back; gives what went wrong, or null. */
export async function restore() {
  const answer = await fetch("/config.json");
  if (!answer.ok) throw new Error("config.json did not load");
  config = await answer.json();
  const back = new URLSearchParams(location.search);
  if (!back.has("code") && !back.has("error")) return null;
  const underWay = JSON.parse(sessionStorage.getItem(UNDER_WAY) ?? "{}");
  history.replaceState(null, "", here() + (underWay.place ?? ""));
  // A code that this tab did not ask for is somebody else's, and so are the words of an error.
  const ours = underWay.state && back.get("state") === underWay.state;
  if (!ours) return "this tab did not ask for that sign-in";
  sessionStorage.removeItem(UNDER_WAY);
  if (back.has("error")) return back.get("error_description") ?? back.get("error");
  const fetched = await fetchTokens({
    grant_type: "authorization_code",
    code: back.get("code"),
    redirect_uri: here(),
    code_verifier: underWay.verifier,
  });
  return fetched ? null : "the sign-in page gave no token";
}

export const stack = () => config.stack;

/** Whether there is a token, or the right to a new one. */
export const signedIn = () => Boolean(held()?.token);

/** Whether this tab was signed in before. */
export const wasSignedIn = () => held() !== null;

/** The token to show with a request, renewed when its time is over; null: sign in. */
export async function token() {
  const { token: value, until, refresh } = held() ?? {};
  if (!value || Date.now() < until) return value ?? null;
  // Several requests may want it at once; one renews it for all.
  renewal ??= renew(refresh).finally(() => (renewal = null));
  await renewal;
  return held().token;
}

/** Go to the sign-in page; the way back leads to the place that is open now. */
export async function signIn() {
  const verifier = random();
  const state = random();
  sessionStorage.setItem(UNDER_WAY, JSON.stringify({ verifier, state, place: location.hash }));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  go("/oauth2/authorize", {
    response_type: "code",
    client_id: config.client_id,
    redirect_uri: here(),
    scope: "openid email",
    state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  });
}

/** Forget the tokens here, take back the right to new ones, and end the session there. */
export async function signOut() {
  const refresh = held()?.refresh;
  sessionStorage.clear();
  // Signing out must not hang on it: the right to new tokens ends by itself within a day.
  if (refresh) await post("/oauth2/revoke", { token: refresh }).catch(() => null);
  go("/logout", { client_id: config.client_id, logout_uri: here() });
}

/** The server did not take the token: only a new sign-in helps. */
export function expire() {
  sessionStorage.setItem(TOKENS, JSON.stringify({ token: null }));
}

async function renew(refresh) {
  if (!refresh) return expire();
  const renewed = await fetchTokens(
    { grant_type: "refresh_token", refresh_token: refresh },
    refresh,
  );
  if (!renewed) expire();
}

async function fetchTokens(grant, refresh = null) {
  const answer = await post("/oauth2/token", grant);
  if (!answer.ok) return false;
  // The ID token, not the access token: it names the person who signs a repair.
  const { id_token, expires_in, refresh_token } = await answer.json();
  const until = Date.now() + expires_in * 1000 - MARGIN_MS;
  const kept = { token: id_token, until, refresh: refresh_token ?? refresh };
  sessionStorage.setItem(TOKENS, JSON.stringify(kept));
  return true;
}

function post(path, form) {
  const body = new URLSearchParams({ client_id: config.client_id, ...form });
  return fetch(config.sign_in + path, { method: "POST", body });
}

function go(path, query) {
  location.assign(`${config.sign_in}${path}?${new URLSearchParams(query)}`);
}

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

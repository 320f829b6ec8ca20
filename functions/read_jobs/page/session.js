// Who is signed in: Cognito's hosted page, authorization code with PKCE, tokens in this tab only.

const TOKEN = "oncely.token";
const UNDER_WAY = "oncely.sign-in";
// A token is left this long before its end, so that no request arrives with a dead one.
const MARGIN_MS = 30_000;

let config;

const here = () => `${location.origin}/`;

/** Read the settings, and finish a sign-in that comes back; gives what went wrong, or null. */
export async function restore() {
  const answer = await fetch("/config.json");
  if (!answer.ok) throw new Error("config.json did not load");
  config = await answer.json();
  const back = new URLSearchParams(location.search);
  if (!back.has("code") && !back.has("error")) return null;
  const underWay = JSON.parse(sessionStorage.getItem(UNDER_WAY) ?? "{}");
  sessionStorage.removeItem(UNDER_WAY);
  history.replaceState(null, "", here() + (underWay.place ?? ""));
  if (back.has("error")) return back.get("error_description") ?? back.get("error");
  // A code that this tab did not ask for is somebody else's.
  if (!underWay.state || back.get("state") !== underWay.state)
    return "this tab did not ask for that sign-in";
  return exchange(back.get("code"), underWay.verifier);
}

export const stack = () => config.stack;

/** The token to show with each request, or null when there is none or its time is over. */
export function token() {
  const held = JSON.parse(sessionStorage.getItem(TOKEN) ?? "null");
  return held && Date.now() < held.until ? held.value : null;
}

/** Whether this tab was signed in before. */
export const wasSignedIn = () => sessionStorage.getItem(TOKEN) !== null;

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

/** Forget the token here, and end the session there. */
export function signOut() {
  sessionStorage.clear();
  go("/logout", { client_id: config.client_id, logout_uri: here() });
}

/** The server did not take the token: only a new one helps. */
export function expire() {
  if (wasSignedIn()) sessionStorage.setItem(TOKEN, JSON.stringify({ value: null, until: 0 }));
}

async function exchange(code, verifier) {
  const form = {
    grant_type: "authorization_code",
    client_id: config.client_id,
    code,
    redirect_uri: here(),
    code_verifier: verifier,
  };
  const answer = await fetch(`${config.sign_in}/oauth2/token`, {
    method: "POST",
    body: new URLSearchParams(form),
  });
  if (!answer.ok) return "the sign-in page gave no token";
  // The ID token, not the access token: it names the person, and repairs are signed with that name.
  const { id_token: value, expires_in: lifetime } = await answer.json();
  sessionStorage.setItem(
    TOKEN,
    JSON.stringify({ value, until: Date.now() + lifetime * 1000 - MARGIN_MS }),
  );
  return null;
}

function go(path, query) {
  location.assign(`${config.sign_in}${path}?${new URLSearchParams(query)}`);
}

function random() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

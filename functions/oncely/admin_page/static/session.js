// Sign-in: Cognito's hosted page, authorization code with PKCE, tokens in this tab only.

const TOKENS = "oncely.tokens";
const SIGN_IN_STATE = "oncely.sign-in";
// Renew a token this long before it expires, so that no request arrives with an expired one.
const MARGIN_MS = 30_000;

let config;
let renewal = null;

const redirectUri = () => `${location.origin}/`;
const storedTokens = () => JSON.parse(sessionStorage.getItem(TOKENS) ?? "null");

/** Load the settings and complete a sign-in that returned. Returns the error, or null. */
export async function restoreSession() {
  const response = await fetch("/config.json");
  if (!response.ok) throw new Error("config.json did not load");
  config = await response.json();
  const returned = new URLSearchParams(location.search);
  if (!returned.has("code") && !returned.has("error")) return null;
  const pending = JSON.parse(sessionStorage.getItem(SIGN_IN_STATE) ?? "{}");
  history.replaceState(null, "", redirectUri() + (pending.hash ?? ""));
  // A code or an error text that this tab did not request may be forged.
  const requested = pending.state && returned.get("state") === pending.state;
  if (!requested) return "the sign-in was not started in this tab";
  sessionStorage.removeItem(SIGN_IN_STATE);
  if (returned.has("error")) return returned.get("error_description") ?? returned.get("error");
  const fetched = await fetchTokens({
    grant_type: "authorization_code",
    code: returned.get("code"),
    redirect_uri: redirectUri(),
    code_verifier: pending.verifier,
  });
  return fetched ? null : "the sign-in page returned no token";
}

export const stack = () => config.stack;

/** Whether there is a token, or a refresh token for a new one. */
export const signedIn = () => Boolean(storedTokens()?.token);

/** Whether this tab was signed in before. */
export const wasSignedIn = () => storedTokens() !== null;

/** The token for a request, renewed if it expired. Returns null if a new sign-in is needed. */
export async function token() {
  const { token: value, until, refresh } = storedTokens() ?? {};
  if (!value || Date.now() < until) return value ?? null;
  // Concurrent requests share one renewal.
  renewal ??= renew(refresh).finally(() => (renewal = null));
  await renewal;
  return storedTokens().token;
}

/** Go to the sign-in page. It returns to the current view. */
export async function signIn() {
  const verifier = random();
  const state = random();
  sessionStorage.setItem(
    SIGN_IN_STATE,
    JSON.stringify({ verifier, state, hash: location.hash }),
  );
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  redirectTo("/oauth2/authorize", {
    response_type: "code",
    client_id: config.client_id,
    redirect_uri: redirectUri(),
    scope: "openid email",
    state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  });
}

/** Delete the tokens, revoke the refresh token, and end the session at Cognito. */
export async function signOut() {
  const refresh = storedTokens()?.refresh;
  sessionStorage.clear();
  // Signing out must not wait for this. The refresh token expires within a day anyway.
  if (refresh) await post("/oauth2/revoke", { token: refresh }).catch(() => null);
  redirectTo("/logout", { client_id: config.client_id, logout_uri: redirectUri() });
}

/** The server rejected the token. Only a new sign-in helps. */
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
  const response = await post("/oauth2/token", grant);
  if (!response.ok) return false;
  // The ID token, not the access token: it has the user name, which a repair records.
  const { id_token, expires_in, refresh_token } = await response.json();
  const until = Date.now() + expires_in * 1000 - MARGIN_MS;
  const tokens = { token: id_token, until, refresh: refresh_token ?? refresh };
  sessionStorage.setItem(TOKENS, JSON.stringify(tokens));
  return true;
}

function post(path, form) {
  const body = new URLSearchParams({ client_id: config.client_id, ...form });
  return fetch(config.sign_in + path, { method: "POST", body });
}

function redirectTo(path, query) {
  location.assign(`${config.sign_in}${path}?${new URLSearchParams(query)}`);
}

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

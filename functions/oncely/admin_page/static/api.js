// Calls the API and translates its errors.
import { expire, token } from "./session.js";

/** The token is missing or expired. */
export class SignedOutError extends Error {
  constructor() {
    super("Your session has expired. Sign in again.");
  }
}

/** An error response. Status 0 means that no response arrived. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error ?? (status ? `The server returned status ${status}.` : UNREACHABLE));
    this.status = status;
    this.job = body.job ?? null;
    this.contradiction = body.contradiction ?? null;
    // After a 4xx nothing was written. After anything else the change may have been applied.
    this.isDefinitive = status >= 400 && status < 500;
  }
}

const UNREACHABLE = "Cannot reach the server. Check your connection.";

export const currentUser = () => get("/api/me");
export const counts = (signal) => get("/api/counts", {}, signal);
export const gates = (signal) => get("/api/gates", {}, signal);
export const overview = (signal) => get("/api/overview", {}, signal);
export const metrics = (signal) => get("/api/metrics", {}, signal);
export const find = (q, signal) => get("/api/find", { q }, signal);
export const resolve = (q, signal) => get("/api/resolve", { q }, signal);
export const lookup = (key) => get("/api/lookup", { key });
export const rejects = (signal) => get("/api/rejects", {}, signal);
export const audits = (signal) => get("/api/audits", {}, signal);
export const audit = (name, signal) => get("/api/audit", { name }, signal);
export const jobs = (query, signal) => get("/api/jobs", query, signal);
export const job = (key, signal) => get("/api/job", { key }, signal);
export const repair = (request) => post("/api/repair", request);
export const startBulk = (request) => post("/api/bulk", request);
export const continueBulk = (request) => post("/api/bulk/continue", request);
export const resendReject = (request) => post("/api/rejects/resend", request);
export const pause = (request) => post("/api/pause", request);

/** A list as a file, CSV or JSON. `truncated` means that it may be incomplete. */
export async function exportJobs(query) {
  const response = await send(`/api/export?${toParams(query)}`);
  return {
    file: await response.blob(),
    truncated: response.headers.get("x-oncely-truncated") === "true",
  };
}

const get = (path, query = {}, signal) => call(`${path}?${toParams(query)}`, { signal });

const post = (path, request) =>
  call(path, {
    method: "POST",
    body: JSON.stringify(request),
    headers: { "content-type": "application/json" },
  });

const call = async (path, options) => (await send(path, options)).json();

async function send(path, options = {}) {
  const bearer = await token().catch(failUnreachable);
  if (!bearer) throw new SignedOutError();
  const headers = { ...options.headers, authorization: `Bearer ${bearer}` };
  const response = await fetchOrFail(path, { ...options, headers });
  if (response.status === 401) {
    expire();
    throw new SignedOutError();
  }
  if (!response.ok) throw new ApiError(response.status, await readBody(response));
  return response;
}

async function fetchOrFail(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    failUnreachable();
  }
}

function failUnreachable() {
  throw new ApiError(0, {});
}

async function readBody(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

function toParams(query) {
  return new URLSearchParams(Object.entries(query).filter(([, value]) => value));
}

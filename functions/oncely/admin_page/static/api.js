// The API, and what its refusals mean for the page.
import { expire, token } from "./session.js";

/** The token is missing or over: sign in, and ask again. */
export class SignedOutError extends Error {
  constructor() {
    super("Your sign-in has ended: sign in again.");
  }
}

/** A refusal, with the sentence that says what to do; status 0 means that no answer came. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body.error ?? (status ? `The server answered ${status}.` : UNREACHABLE));
    this.status = status;
    this.job = body.job ?? null;
    // A plain no leaves all as it was. After anything else it may have been done all the same.
    this.plainNo = status >= 400 && status < 500;
  }
}

const UNREACHABLE = "The server could not be reached. Check the connection.";

export const me = () => get("/api/me");
export const counts = (signal) => get("/api/counts", {}, signal);
export const find = (q, signal) => get("/api/find", { q }, signal);
export const jobs = (query, signal) => get("/api/jobs", query, signal);
export const job = (key, signal) => get("/api/job", { key }, signal);
export const repair = (order) =>
  call("/api/repair", {
    method: "POST",
    body: JSON.stringify(order),
    headers: { "content-type": "application/json" },
  });

/** A list as a file whose cells are safe to open in a spreadsheet; `more`: it is full. */
export async function exported(query) {
  const answer = await request(`/api/export?${given(query)}`);
  return { file: await answer.blob(), more: answer.headers.get("x-oncely-more") === "true" };
}

const get = (path, query = {}, signal) => call(`${path}?${given(query)}`, { signal });

const call = async (path, options) => (await request(path, options)).json();

async function request(path, options = {}) {
  const shown = await token().catch(unreachable);
  if (!shown) throw new SignedOutError();
  const headers = { ...options.headers, authorization: `Bearer ${shown}` };
  const answer = await reach(path, { ...options, headers });
  if (answer.status === 401) {
    expire();
    throw new SignedOutError();
  }
  if (!answer.ok) throw new ApiError(answer.status, await body(answer));
  return answer;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    unreachable();
  }
}

function unreachable() {
  throw new ApiError(0, {});
}

async function body(answer) {
  try {
    return await answer.json();
  } catch {
    return {};
  }
}

function given(query) {
  return new URLSearchParams(Object.entries(query).filter(([, value]) => value));
}

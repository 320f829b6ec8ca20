// The dialog of a repair: a reason, what it would do, and then doing it.
import { repair, SignedOutError } from "./api.js";
import { button, el, problem } from "./elements.js";
import { signIn } from "./session.js";
import { badge, sentence } from "./words.js";

/** Ask for the reason and do it; `done` gets the answer, `reload` loads what has changed. */
export function openRepair({ job, offer, reload, done }) {
  const draft = draftOf(job.job_key);
  const { form, reason, reference, result } = repairForm(job, offer, draft);
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  // Busy, not disabled: a disabled button would lose the focus.
  const busy = () => form.getAttribute("aria-busy") === "true";

  async function send(dryRun) {
    // A first look takes no reason: nothing is written.
    const needed = dryRun ? [] : [reason, reference];
    const empty = needed.find((input) => input && !input.value.trim());
    if (busy()) return;
    if (empty) return complain(empty);
    form.setAttribute("aria-busy", "true");
    const answer = await repair(order(dryRun)).catch((error) => refuse(error, dryRun));
    form.setAttribute("aria-busy", "false");
    if (!answer) return;
    if (dryRun) return foretell(answer);
    draft.forget();
    dialog.close();
    done(answer, offer.label);
  }

  function order(dryRun) {
    return {
      key: job.job_key,
      repair: offer.repair,
      version: job.version,
      reason: reason.value.trim(),
      reference: reference?.value.trim() || undefined,
      dry_run: dryRun,
    };
  }

  function foretell({ job: after, said }) {
    const heading = el("h3", {}, "Nothing was changed. It would do this:");
    result.replaceChildren(heading, answers(said, after, "Our record would say"));
  }

  function refuse(error, dryRun) {
    result.replaceChildren(refusal(error, dryRun));
  }

  function refusal(error, dryRun) {
    const again = button("Reload", () => {
      dialog.close();
      reload();
    });
    if (error instanceof SignedOutError) {
      const kept = "Your sign-in has ended. Nothing was done, and what you have typed is kept.";
      return problem(kept, button("Sign in again", signIn));
    }
    if (error.job) {
      const now = `it is ${error.job.status_words} now`;
      return problem(
        `This job has changed since you opened it: ${now}. Nothing was done. Reload it and look again.`,
        again,
      );
    }
    // No answer is not a no: look before you try again.
    if (!error.plainNo && !dryRun) {
      return problem(
        `${sentence(error.message)} It may have been done all the same: reload to see.`,
        again,
      );
    }
    return problem(sentence(error.message));
  }

  function complain(input) {
    const why = {
      reason: "Say why: the reason is kept with the job.",
      reference: "Give the provider’s reference: it is what proves the outcome.",
    };
    result.replaceChildren(problem(why[input.id]));
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  form.querySelector(".actions").append(
    button("Cancel", () => busy() || dialog.close(), "button.plain"),
    button("Show what it would do", () => send(true)),
    el("button.button.primary", {}, offer.label),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(false);
  });
  dialog.addEventListener("cancel", (event) => busy() && event.preventDefault());
  dialog.addEventListener("close", () => dialog.remove());
  // Whoever goes back has left this job, and its dialog with it.
  addEventListener("hashchange", () => dialog.close(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}

/** What the provider said, and what our record says, next to each other. */
export function answers(said, job, ours = "Our record says") {
  // "Stripe says: succeeded", or, when nobody was asked, how it was done.
  const spoken = said?.match(/^([^:]{1,40} says): (.*)$/s);
  const [who, what] = spoken ? spoken.slice(1) : ["How", said || "nobody was asked"];
  return el(
    "dl.answers",
    {},
    el("div", {}, el("dt", {}, who), el("dd", {}, sentence(what))),
    el("div", {}, el("dt", {}, ours), el("dd", {}, badge(job), " ", job.headline)),
  );
}

function repairForm(job, offer, draft) {
  const kept = draft.read();
  const reason = el("textarea", {
    id: "reason",
    required: true,
    rows: "3",
    maxlength: "500",
    "aria-describedby": "reason-help",
  });
  const reference = offer.needs_reference
    ? el("input", {
        id: "reference",
        required: true,
        maxlength: "128",
        autocomplete: "off",
        spellcheck: "false",
      })
    : null;
  const inputs = [reason, reference].filter(Boolean);
  const result = el("div.result", { "aria-live": "polite" });
  const form = el(
    "form",
    { novalidate: true },
    el("h2", { id: "dialog-title" }, offer.label),
    el("p", {}, sentence(offer.why)),
    el("p.meta", {}, el("bdi", {}, job.job_key)),
    field(
      "Reason",
      reason,
      el("p.meta", { id: "reason-help" }, "Kept with the job, with your name."),
    ),
    reference ? field("Provider reference", reference) : null,
    result,
    el("div.actions"),
  );
  for (const input of inputs) input.value = kept[input.id] ?? "";
  form.addEventListener("input", ({ target }) => {
    target.removeAttribute("aria-invalid");
    draft.write(Object.fromEntries(inputs.map((input) => [input.id, input.value])));
  });
  return { form, reason, reference, result };
}

const field = (label, input, help = null) =>
  el("div.field", {}, el("label", { for: input.id }, label), input, help);

/** What was typed for a job: it outlives a reload and a new sign-in, in this tab. */
function draftOf(key) {
  const name = `oncely.draft:${key}`;
  return {
    read: () => JSON.parse(sessionStorage.getItem(name) ?? "{}"),
    write: (values) => sessionStorage.setItem(name, JSON.stringify(values)),
    forget: () => sessionStorage.removeItem(name),
  };
}

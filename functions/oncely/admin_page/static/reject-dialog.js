// Edit and resend a rejected message. Resending it a second time needs a confirmation.
import { resendReject } from "./api.js";
import { button, el, errorBox } from "./elements.js";
import { capitalizeSentence, jobHref } from "./format.js";

/** Open the dialog for one reject. `reload` lists the rejects again. */
export function openRejectDialog(reject, reload) {
  const message = el("textarea.code", { id: "message", rows: "12", spellcheck: "false" });
  const reason = el("input", { id: "reason", required: true, maxlength: "250", autocomplete: "off" });
  const result = el("div.result", { "aria-live": "polite" });
  const actions = el("div.actions");
  const form = el(
    "form",
    { novalidate: true },
    el("h2", { id: "dialog-title" }, "Edit and resend"),
    el("p", {}, capitalizeSentence(reject.reason)),
    field("Message", message, "Email addresses are masked. Fields that you do not edit are sent with their original values."),
    field("Reason", reason, "Stored with the job, with your name."),
    result,
    actions,
  );
  const dialog = el("dialog.wide", { "aria-labelledby": "dialog-title" }, form);
  let seen = reject.resends;
  message.value = prettyJson(reject.body);
  if (seen) result.append(errorBox(`This message was already resent${seen > 1 ? ` ${seen} times` : ""}. Check its job first.`));

  async function send() {
    if (form.getAttribute("aria-busy") === "true") return;
    if (!reason.value.trim()) {
      result.replaceChildren(errorBox("Enter a reason. It is stored with the job."));
      return reason.focus();
    }
    form.setAttribute("aria-busy", "true");
    try {
      const text = { message: message.value, reason: reason.value.trim() };
      showSent(await resendReject({ name: reject.name, seen, ...text }));
    } catch (error) {
      seen = error.resends ?? seen;
      const check = error.isDefinitive || !error.status ? "" : " It may have been sent. Reload to check.";
      result.replaceChildren(errorBox(capitalizeSentence(error.message) + check));
    } finally {
      form.setAttribute("aria-busy", "false");
    }
  }

  function showSent({ job_key: key, status_label: status, created }) {
    const link = el("a", { href: jobHref(key) }, key);
    const text = created ? " was created and sent." : ` exists and is ${status}.`;
    result.replaceChildren(el("p", {}, link, text));
    actions.replaceChildren(button("Close", () => dialog.close(), "button.button.primary"));
    link.focus();
    dialog.addEventListener("close", reload, { once: true });
  }

  actions.append(
    button("Cancel", () => dialog.close(), "button.plain"),
    el("button.button.primary", {}, "Resend"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  dialog.addEventListener("close", () => dialog.remove());
  addEventListener("hashchange", () => dialog.close(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  message.focus();
}

const field = (label, input, help) =>
  el(
    "div.field",
    {},
    el("label", { for: input.id }, label),
    input,
    el("p.meta", {}, help),
  );

function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // Invalid JSON is a reason for a reject, so show it unchanged.
  }
}

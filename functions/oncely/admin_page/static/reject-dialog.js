// Edit and resend a rejected message, once.
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
    field("Message", message, "Fields outside the job key can be edited or removed. Email addresses are masked. Fields that you do not edit are sent with their original values."),
    field("Reason", reason, "Stored with the job, with your name."),
    result,
    actions,
  );
  const dialog = el("dialog.wide", { "aria-labelledby": "dialog-title" }, form);
  message.value = prettyJson(reject.body);

  async function send() {
    if (form.getAttribute("aria-busy") === "true") return;
    if (!reason.value.trim()) {
      result.replaceChildren(errorBox("Enter a reason. It is stored with the job."));
      return reason.focus();
    }
    form.setAttribute("aria-busy", "true");
    try {
      const text = { message: message.value, reason: reason.value.trim() };
      showSent(await resendReject({ name: reject.name, ...text }));
    } catch (error) {
      const check = error.isDefinitive || !error.status ? "" : " It may have been sent. Reload to check.";
      result.replaceChildren(errorBox(capitalizeSentence(error.message) + check));
    } finally {
      form.setAttribute("aria-busy", "false");
    }
  }

  function showSent({ job_key: key, status_label: status, created, needs_second_operator: waits }) {
    const link = el("a", { href: jobHref(key) }, key);
    const sent = created ? " was created and sent." : ` exists and is ${status}.`;
    const text = waits ? " is waiting for a second operator. Nothing was sent." : sent;
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

const prettyJson = (text) => JSON.stringify(JSON.parse(text), null, 2);

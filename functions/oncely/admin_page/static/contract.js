// Renders a contract's description.
import { el } from "./elements.js";
import { capitalizeSentence } from "./format.js";

const LABELS = {
  effect: "Effect",
  business_rows: "Business rows",
  success: "Success",
  failure: "Failure",
  retry: "Retry",
};

export function renderContract(contract) {
  const fields = Object.entries(LABELS).flatMap(([name, label]) => [
    el("dt", {}, label),
    el("dd", {}, capitalizeSentence(contract[name])),
  ]);
  const cases = contract.review_when.map((text) => el("li", {}, text));
  return el(
    "div",
    {},
    el("p.meta", {}, `${contract.job_type} (queue ${contract.queue})`),
    el("dl", {}, fields, el("dt", {}, "Needs review"), el("dd", {}, el("ul", {}, cases))),
  );
}

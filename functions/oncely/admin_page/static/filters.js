// The filters of a list: job type, time range, error and customer. All are kept in the URL.
import { el } from "./elements.js";

const TIME_RANGES = {
  "": "Any time",
  hour: "Last hour",
  today: "Today (UTC)",
  day: "Last 24 hours",
  week: "Last 7 days",
  dates: "Between two dates",
};
// Done jobs are read from the history day by day, so "any time" is not offered.
const DONE_TIME_RANGES = { ...TIME_RANGES, "": TIME_RANGES.day };
delete DONE_TIME_RANGES.day;
const HOURS = { hour: 1, day: 24, week: 168 };

/** The filters of a list, from the URL. A change updates the URL. */
export function filters(status, query, types) {
  const type = query.get("type") ?? "";
  const when = query.get("when") ?? "";
  const known = type && !types.includes(type) ? [...types, type] : types;
  const dates = el(
    "div.dates",
    { hidden: when !== "dates" },
    withLabel(
      "From",
      el("input", { id: "from", name: "from", type: "date", value: query.get("from") }),
    ),
    withLabel("To", el("input", { id: "to", name: "to", type: "date", value: query.get("to") })),
    el("button.button", { id: "show" }, "Show"),
  );
  const choices = {
    type: [["", "All"], ...known.map((name) => [name, name])],
    when: Object.entries(status === "finished" ? DONE_TIME_RANGES : TIME_RANGES),
  };
  const form = el(
    "form.filters",
    { "aria-label": "Filters" },
    withLabel("Job type", select("type", choices.type, type)),
    withLabel("When", select("when", choices.when, when)),
    withLabel("Error contains", textInput("error", query.get("error"))),
    withLabel("Customer", textInput("customer", query.get("customer"))),
    dates,
  );
  const apply = () => {
    const set = [...new FormData(form)].filter(
      ([name, value]) => value && !(dates.hidden && isDay(name)),
    );
    location.hash = `#/list/${status}${set.length ? "?" : ""}${new URLSearchParams(set)}`;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  form.addEventListener("change", ({ target }) => {
    // Dates are applied by the button, when both are complete.
    if (isDay(target.name)) return;
    dates.hidden = form.when.value !== "dates";
    if (dates.hidden) apply();
  });
  return form;
}

/** The filter's time range as timestamps. Dates are in the reader's time zone. */
export function timeWindow(query) {
  const when = query.get("when");
  if (Object.hasOwn(HOURS, when))
    return { from: new Date(Date.now() - HOURS[when] * 3_600_000).toISOString() };
  // The counts use the UTC day, so that all readers see the same. This is that day.
  if (when === "today") return { from: `${new Date().toISOString().slice(0, 10)}T00:00:00Z` };
  if (when !== "dates") return {};
  return { from: midnight(query.get("from"), 0), to: midnight(query.get("to"), 1) };
}

function midnight(day, later) {
  const at = new Date(`${day}T00:00`);
  if (Number.isNaN(at.getTime())) return null;
  at.setDate(at.getDate() + later);
  return at.toISOString();
}

const isDay = (name) => name === "from" || name === "to";

const textInput = (name, value) =>
  el("input", { id: name, name, value, type: "text", maxlength: "200", autocomplete: "off", spellcheck: "false" });

const withLabel = (label, field) => el("label", {}, el("span", {}, label), field);

const select = (name, choices, chosen) =>
  el(
    "select",
    { id: name, name },
    choices.map(([value, label]) => el("option", { value, selected: value === chosen }, label)),
  );

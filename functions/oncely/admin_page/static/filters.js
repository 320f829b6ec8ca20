// Which jobs of a list are wanted: of one type, of a time; both stand in the address.
import { el } from "./elements.js";

const WINDOWS = {
  "": "Any time",
  hour: "Last hour",
  today: "Today (UTC)",
  day: "Last 24 hours",
  week: "Last 7 days",
  dates: "Between two days",
};
// Done jobs are listed from the history, which is read day by day: never all of it.
const OF_DONE = { ...WINDOWS, "": WINDOWS.day };
delete OF_DONE.day;
const HOURS = { hour: 1, day: 24, week: 168 };

/** The filters of a list, as the address has them; a change goes to the address. */
export function filters(status, query, types) {
  const type = query.get("type") ?? "";
  const when = query.get("when") ?? "";
  const known = type && !types.includes(type) ? [...types, type] : types;
  const dates = el(
    "div.dates",
    { hidden: when !== "dates" },
    labelled(
      "From",
      el("input", { id: "from", name: "from", type: "date", value: query.get("from") }),
    ),
    labelled("To", el("input", { id: "to", name: "to", type: "date", value: query.get("to") })),
    el("button.button", { id: "show" }, "Show"),
  );
  const choices = {
    type: [["", "All"], ...known.map((name) => [name, name])],
    when: Object.entries(status === "finished" ? OF_DONE : WINDOWS),
  };
  const form = el(
    "form.filters",
    { "aria-label": "Filters" },
    labelled("Job type", select("type", choices.type, type)),
    labelled("When", select("when", choices.when, when)),
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
    // Two days are complete only when someone says so.
    if (isDay(target.name)) return;
    dates.hidden = form.when.value !== "dates";
    if (dates.hidden) apply();
  });
  return form;
}

/** The filter's window as instants; days are the reader's own. */
export function timeWindow(query) {
  const when = query.get("when");
  if (Object.hasOwn(HOURS, when))
    return { from: new Date(Date.now() - HOURS[when] * 3_600_000).toISOString() };
  // The counts are of the day in UTC, so that two readers see the same; this is that day.
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

const labelled = (label, field) => el("label", {}, el("span", {}, label), field);

const select = (name, choices, chosen) =>
  el(
    "select",
    { id: name, name },
    choices.map(([value, label]) => el("option", { value, selected: value === chosen }, label)),
  );

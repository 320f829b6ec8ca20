// The contract's own words, set as a list of terms; a line it does not know stays a paragraph.
import { el } from "./elements.js";

export function contractInWords(text) {
  const [first, ...lines] = text.split("\n").filter((line) => line.trim());
  const terms = el("dl");
  let open = null;
  for (const line of lines) {
    const item = line.match(/^\s+- (.*)$/);
    const term = line.match(/^\s+([^:]+):\s*(.*)$/);
    if (item && open) {
      if (open.lastElementChild?.tagName !== "UL") open.append(el("ul"));
      open.lastElementChild.append(el("li", {}, item[1]));
    } else if (term) {
      open = el("dd", {}, term[2]);
      terms.append(el("dt", {}, term[1]), open);
    } else {
      (open ?? terms.appendChild(el("dd"))).append(el("p", {}, line.trim()));
    }
  }
  return el("div", {}, el("p.meta", {}, first), terms);
}

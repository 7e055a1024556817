// Whose slices leave most of what they hold unused, as rows of a table.

import { digits, element, memory, named } from "./text.js";

// Rows of the table.
const MOST = 100;

export class Owners {
  constructor(root, rows) {
    this.root = root;
    this.rows = rows;
  }

  /** Show the owners that leave memory unused, most first; those of which that is not known are left out. */
  show(owners) {
    const found = owners.filter((owner) => owner.unusedMiB > 0)
      .sort((one, other) => other.unusedMiB - one.unusedMiB || (`${one.namespace}/${one.owner}` < `${other.namespace}/${other.owner}` ? -1 : 1))
      .slice(0, MOST);
    this.root.hidden = !found.length;
    const key = JSON.stringify(found);
    if (this.key === key) return;
    this.key = key;
    this.rows.replaceChildren(...found.map(row));
  }
}

function row(owner) {
  const root = element("tr");
  const whose = element("th");
  whose.scope = "row";
  const [kind, ...name] = owner.owner.split(" ");
  whose.append(named("b", "", name.join(" ")), named("span", "soft", `${owner.namespace}, ${kind}`));
  const figures = [memory(owner.unusedMiB), memory(owner.heldMiB), digits(owner.slices), digits(owner.idle)];
  root.append(whose, ...figures.map((text) => element("td", "", text)));
  return root;
}

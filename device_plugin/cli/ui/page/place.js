// Which view is shown, with which filter and which card: all of it stands in the address, behind `#`.

import { VIEWS } from "./views.js";

const FIELDS = ["name", "model", "namespace", "state", "reason", "sort", "phase", "span", "node", "card", "job"];

/** What the address says. */
export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(query);
  const place = { view: Object.hasOwn(VIEWS, path) ? path : "cards" };
  for (const field of FIELDS) place[field] = given.get(field) ?? "";
  return place;
}

/** The address of a place. */
export function link(place) {
  const query = new URLSearchParams(FIELDS.filter((field) => place[field]).map((field) => [field, place[field]]));
  return `#/${place.view}${query.size ? `?${query}` : ""}`;
}

// Waiting pods as a table: those of one controller that wait for the same reason share a row.

import { command } from "./command.js";
import { LOGIN } from "./session.js";
import { t } from "./language.js";
import { aged, compared, digits, element, named, sentence } from "./text.js";

// Pods that a row lists.
const MOST_PODS = 50;

/** Groups pods by namespace, controller and reason; a group stays the same object while its pods do. */
export class WaitingGroups {
  constructor() {
    this.known = new Map();
  }

  /** The groups of pods, as pairs of key and group: those with the most pods first, then those that wait longest. */
  of(pods) {
    const found = new Map();
    for (const pod of pods) {
      const key = JSON.stringify([pod.namespace, pod.owner || pod.pod, pod.reason]);
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(pod);
    }
    const groups = [...found].map(([key, members]) => {
      members.sort((one, other) => compared(one.since, other.since) || compared(one.pod, other.pod));
      const before = this.known.get(key);
      const same = before?.length === members.length && members.every((pod, i) => pod === before[i]);
      return [key, same ? before : members];
    });
    this.known = new Map(groups);
    return groups.sort(([, one], [, other]) => other.length - one.length || compared(one[0].since, other[0].since));
  }
}

/** The row of a group; its pods are listed once somebody opens the list. */
export function waitingRow(pods) {
  const [first] = pods;
  const root = element("tr", "item");
  const whose = element("th");
  whose.scope = "row";
  whose.append(named("b", "", first.owner ? first.owner.split(" ").slice(1).join(" ") || first.owner : first.pod));
  whose.append(named("span", "soft", [first.namespace, first.owner?.split(" ")[0]].filter(Boolean).join(t("list-comma"))));
  const why = element("td");
  why.dataset.label = t("why");
  why.append(named("p", "", sentence(first.text)));
  if (first.advice) why.append(named("p", "soft", t("what-helps", { advice: first.advice })));
  if (first.asks) why.append(named("p", "soft", t(pods.length > 1 ? "first-asks" : "asks", { what: first.asks })));
  why.append(members(pods));
  root.append(whose, cell(t("pods"), element("span", "", digits(pods.length))), cell(t("longest"), aged("span", "", first.since)), why);
  return root;
}

function cell(label, content) {
  const made = element("td", "figure");
  made.dataset.label = label;
  made.append(content);
  return made;
}

/** The pods of a group, each with a button that asks why it waits. */
function members(pods) {
  if (pods.length === 1) return whyButton(pods[0]);
  const root = element("details");
  root.append(element("summary", "", t("the-pods", { n: pods.length })));
  root.addEventListener("toggle", () => {
    if (root.childElementCount > 1) return;
    const list = element("ul");
    for (const pod of pods.slice(0, MOST_PODS)) {
      const line = element("li");
      line.append(named("span", "", pod.pod), aged("span", "soft", pod.since), whyButton(pod));
      list.append(line);
    }
    root.append(list);
    if (pods.length > MOST_PODS) root.append(element("p", "soft", t("more-pods", { n: pods.length - MOST_PODS })));
  });
  return root;
}

/** A button that asks why a pod waits; on the page for a team, the command that a person runs with rights of their own. */
function whyButton(pod) {
  if (LOGIN) return command(`vgpu why ${pod.pod} -n ${pod.namespace}`);
  const button = element("button", "plain why", t("why-in-full"));
  button.type = "button";
  button.pod = `${pod.namespace}/${pod.pod}`;
  button.setAttribute("aria-label", t("why-in-full-of", { pod: pod.pod }));
  return button;
}

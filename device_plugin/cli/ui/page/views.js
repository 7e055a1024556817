// The views of the page, in their order, with the words around them. Those with `make` are lists of the entries of a kind,
// which it draws. The server sends the entries (../follow.py).

import { bar, item, line } from "./lists.js";
import { sentence } from "./text.js";
import { waitingRow } from "./waiting.js";

export const VIEWS = {
  cards: {
    label: "Cards", title: "Cards", filter: "node or pod",
    nothing: "No node shows cards yet: vgpu check says what an install lacks.",
  },
  waiting: {
    kind: "waiting", label: "Waiting", title: "Waiting pods", filter: "pod", nothing: "No pod waits for a card.",
    make: waitingRow,
  },
  gangs: {
    kind: "gang", label: "Gangs", title: "Gangs", filter: "group", nothing: "There are no gangs.",
    make(gang) {
      const root = item(gang.group, gang.namespace, gang.why ? "waiting" : "complete");
      const sizes = gang.sizes.join(" or ");
      line(root, "", `${gang.pods.length} of ${sizes} pods exist, ${gang.bound} are bound, ${gang.finished} have finished.`);
      line(root, "soft", sentence(gang.why));
      bar(root, gang.bound + gang.finished, Math.max(...gang.sizes, 1), "bound");
      return root;
    },
  },
  jobs: {
    kind: "job", label: "Jobs", title: "Jobs in queues", filter: "job", nothing: "No job is in a queue.",
  },
};

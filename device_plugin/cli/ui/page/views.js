// The views of the page, in their order, with the keys of their labels and titles (texts.js). Those with `make` are lists of
// the entries of a kind, which it draws. The server sends the entries (../follow.py).

import { t } from "./language.js";
import { bar, item, line } from "./lists.js";
import { sentence } from "./text.js";
import { waitingRow } from "./waiting.js";

export const VIEWS = {
  cards: { label: "cards", title: "cards" },
  waiting: { kind: "waiting", label: "waiting", title: "waiting-title", make: waitingRow },
  gangs: {
    kind: "gang", label: "gangs", title: "gangs",
    make(gang) {
      const root = item(gang.group, gang.namespace, t(gang.why ? "gang-waiting" : "gang-complete"));
      const { bound, finished } = gang;
      line(root, "", t("gang-state", { exist: gang.pods.length, sizes: gang.sizes.join(t("or")), bound, finished }));
      line(root, "soft", sentence(gang.why));
      bar(root, bound + finished, Math.max(...gang.sizes, 1));
      return root;
    },
  },
  jobs: { kind: "job", label: "jobs", title: "jobs-title" },
};

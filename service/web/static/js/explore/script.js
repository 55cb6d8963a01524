// The question as a script asks it: the page uses no other way than anybody's.
import { h } from "../dom.js";
import { textTabs } from "../tabs.js";

/** Return the request as a command and as JSON. */
export function scriptElement(question) {
  const json = JSON.stringify(question, null, 2);
  const key = "${HEADROOM_API_KEY:+-H \"Authorization: Bearer $HEADROOM_API_KEY\"}";
  // In single quotes a shell reads everything as it stands but the quote itself.
  const body = json.replaceAll("'", "'\\''");
  const command = `curl ${location.origin}/v1/fit ${key} -H 'content-type: application/json' -d '${body}'`;
  return h("div", {}, textTabs("The same question from a script", [["curl", command], ["JSON", json]]));
}

// What was clicked: before and after, and who did it.
import type { Drawn } from "../draw/picture";
import { go } from "../location";
import { branch } from "../location";
import { commit } from "../store";
import { Author, BeforeAfter, EntityHistory, EntityTitle, PropertyTable, readHistory } from "../ui/entity_detail";
import { useLoad } from "../ui/load";
import { Button, Choice, Panel, Problem } from "../ui/parts";
import { useState } from "preact/hooks";

export function ChangeDetail({ element, onClose }: { element: Drawn; onClose: () => void }) {
  const [shows, setShows] = useState<"changed" | "all">("changed");
  const { difference } = element;
  return (
    <Panel class="detail" title={<EntityTitle element={element} />} aside={<Button icon="close" label="Close" onClick={onClose} />}>
      {difference ? (
        <>
          <WhoDidIt element={element} />
          {difference.change === "updated" && (
            <Choice name="Properties" value={shows} options={[["changed", "What differs"], ["all", "All properties"]] as const} onChange={setShows} />
          )}
          <BeforeAfter change={difference} showsAll={shows === "all"} />
        </>
      ) : (
        <>
          <p class="quiet">Not changed here.</p>
          <PropertyTable properties={element.properties} />
        </>
      )}
      <EntityHistory type={element.type} id={element.id} />
      <Button icon="picture" onClick={() => go({ view: "graph", more: { type: element.type, id: element.id } })}>
        Show in Graph
      </Button>
    </Panel>
  );
}

/** The newest commit of the branch that wrote this row, up to the commit of the page. */
function WhoDidIt({ element }: { element: Drawn }) {
  const at = commit.value ?? "";
  const past = useLoad((abort) => readHistory(element.type, element.id, branch.value, abort, 50), [element.key, branch.value, at]);
  // Ids of commits are ordered by time.
  const version = past.value?.find((one) => one.commit <= at);
  return (
    <>
      <Problem error={past.error} />
      {version && <Author version={version} />}
    </>
  );
}

import { go } from "../location";
import { Button, Problem } from "../ui/parts";
import type { Outcome } from "./writes";

/** What is known about a write. */
export function OutcomeNote({ outcome, branch }: { outcome: Outcome; branch: string }) {
  switch (outcome.is) {
    case "running":
      return (
        <p role="status" class="busy">
          Writing…
        </p>
      );
    case "done":
      return (
        <p role="status" class="outcome good">
          {outcome.text}{" "}
          {outcome.commit && (
            <Button onClick={() => go({ branch, commit: outcome.commit, more: { into: null } })}>
              Commit <code>{outcome.commit.slice(-8)}</code>
            </Button>
          )}
        </p>
      );
    case "unknown":
      return (
        <p role="alert" class="outcome unknown">
          <b>Unknown.</b> The server went away before it answered, so it is not known whether this was committed. Asking again by the key of the request…
        </p>
      );
    case "not made":
      return (
        <p role="alert" class="outcome bad">
          {outcome.text}
        </p>
      );
    case "failed":
      return <Problem error={outcome.error} />;
    default:
      return null;
  }
}

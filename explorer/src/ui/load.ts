// What a component shows while the server is asked, and how an answer that comes too late is dropped.
import { useEffect, useState } from "preact/hooks";
import { isAbort, UnreachableError } from "../api";
import { returns } from "../reachable";

export interface Loaded<T> {
  value: T | undefined;
  error: Error | undefined;
  isLoading: boolean;
}

/**
 * Ask when the inputs change. The last value stays until the next one is there, so that the page does not flicker;
 * a new request cancels the one before. After the server was gone, it is asked again.
 */
export function useLoad<T>(load: ((abort: AbortSignal) => Promise<T>) | null, inputs: unknown[]): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>({ value: undefined, error: undefined, isLoading: load !== null });
  useEffect(() => {
    if (!load) {
      setState({ value: undefined, error: undefined, isLoading: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((last) => ({ ...last, isLoading: true }));
    load(abort.signal).then(
      (value) => abort.signal.aborted || setState({ value, error: undefined, isLoading: false }),
      (error: Error) => {
        if (abort.signal.aborted || isAbort(error)) return;
        // While the server is gone, what was read stays; the banner says that it may be old.
        setState((last) => ({ value: error instanceof UnreachableError ? last.value : undefined, error, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [...inputs, load !== null, returns.value]);
  return state;
}

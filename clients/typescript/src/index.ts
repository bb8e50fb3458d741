export * from "./client";
export * from "./shapes";
export type { components, paths } from "./generated/api";

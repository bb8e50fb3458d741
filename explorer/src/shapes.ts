// What the documents of the server look like: the shapes of the client that this page shares with other programs.
export * from "../../clients/typescript/src/shapes";

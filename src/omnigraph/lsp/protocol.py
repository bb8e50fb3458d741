"""The protocol of the language server, which keeps the texts of open files itself."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol, lsp_method


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is none, and the request that waits for an answer, if it was one."""

    request_id: int | str | None
    error: JsonRpcException


class EditorProtocol(LanguageServerProtocol):
    """pygls's protocol without its own copy of each text, whose lines end where editors' lines don't.

    A request that can't be read is answered with an error: an editor would wait for it forever.
    """

    def structure_message(self, data: dict[str, Any]) -> Any:  # noqa: ANN401 - as pygls has it
        """Return the message of an object, or what is wrong with it."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            # pygls calls it a failure of the server if an object has too little of a message.
            told = error if isinstance(error, JsonRpcInvalidParams) else JsonRpcInvalidRequest()
            is_request = "method" in data and isinstance(data.get("id"), int | str)
            return Unreadable(data["id"] if is_request else None, told)

    def handle_message(self, message: Any) -> None:  # noqa: ANN401 - as pygls has it
        """Pass a message on, or refuse it.

        Raises:
            JsonRpcException: It is no message, and there is no request to answer; pygls shows it in the editor.
        """
        if isinstance(message, Unreadable):
            if message.request_id is None:
                raise message.error
            self._send_response(message.request_id, error=message.error.to_response_error())
        elif not hasattr(message, "jsonrpc"):
            raise JsonRpcInvalidRequest
        else:
            super().handle_message(message)

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Generator[Any, Any, None]:
        """Pass the notification on."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        """Pass the notification on."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Generator[Any, Any, None]:
        """Pass the notification on."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None

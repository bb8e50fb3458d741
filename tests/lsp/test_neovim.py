"""The configuration of the page about Neovim, in a headless Neovim with this server."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lsp.conftest import SCHEMA
from lsp.test_server import FRIENDS, WORKERS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "edit-in-neovim.md"
NVIM = shutil.which("nvim")

SCENARIO = """
local report = {}
local function settle(holds)
  assert(vim.wait(60000, holds, 20), "waited too long")
end
local function ask(method, params)
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, answer in pairs(answers or {}) do
    if answer.error then return { error = answer.error.message } end
    return answer.result
  end
end
local function at(mark, after)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    local column = line:find(mark, 1, true)
    if column then
      vim.api.nvim_win_set_cursor(0, { number, column - 1 + (after or 0) })
      return vim.lsp.util.make_position_params(0, "utf-16")
    end
  end
  error("no " .. mark)
end

vim.cmd("edit friends.gq")
settle(function() return #vim.lsp.buf_get_clients(0) > 0 end)
local client = vim.lsp.buf_get_clients(0)[1] or select(2, next(vim.lsp.buf_get_clients(0)))
settle(function() return client.server_capabilities ~= nil and client.initialized end)
report.name = client.name

-- An emoji before a mistake.
vim.api.nvim_buf_set_lines(0, 4, 5, false, { "        /* 😀 */ $q.aeg > 30" })
settle(function() return #vim.diagnostic.get(0) > 0 end)
local found = vim.diagnostic.get(0)[1]
report.diagnostic = { message = found.message, line = found.lnum, column = found.col }

local params = vim.lsp.util.make_given_range_params({ 5, found.col }, { 5, found.col + 1 }, 0, "utf-16")
params.context = { diagnostics = { found.user_data.lsp } }
params.context.diagnostics[1].range = params.range
params.context.diagnostics[1].message = found.message
local actions = ask("textDocument/codeAction", params)
report.action = actions[1].title
vim.lsp.util.apply_workspace_edit(actions[1].edit, "utf-16")
settle(function() return #vim.diagnostic.get(0) == 0 end)
report.mended = vim.api.nvim_buf_get_lines(0, 4, 5, false)[1]

report.hover = ask("textDocument/hover", at("$q.age", 1)).contents.value
local items = ask("textDocument/completion", at("$q.age", 5)).items
report.completion = vim.tbl_map(function(item) return item.label end, items)
local place = ask("textDocument/definition", at("q.age", 2))[1]
report.definition = { vim.fn.fnamemodify(vim.uri_to_fname(place.uri), ":t"), place.range.start.line }

local rename = at("q.age", 2)
rename.newName = "years"
vim.lsp.util.apply_workspace_edit(ask("textDocument/rename", rename), "utf-16")
vim.cmd("silent wall")
report.files = {}
for _, name in ipairs({ "friends.gq", "workers.gq", "schema.pg" }) do
  report.files[name] = table.concat(vim.fn.readfile(name), "\\n")
end
vim.fn.writefile({ vim.fn.json_encode(report) }, "report.json")
vim.cmd("qall!")
"""


@pytest.mark.skipif(NVIM is None, reason="Neovim is not installed (Debian: apt-get install neovim)")
def test_the_configuration_of_the_page_works_in_a_headless_neovim(tmp_path: Path) -> None:
    configuration = re.findall(r"```lua\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "init.lua").write_text(configuration, encoding="utf-8")
    (tmp_path / "scenario.lua").write_text(
        f"local done, mistake = pcall(function() {SCENARIO} end)\n"
        "if not done then vim.fn.writefile({ tostring(mistake) }, 'mistake.txt') vim.cmd('cquit') end\n",
        encoding="utf-8",
    )
    for name, text in (("schema.pg", SCHEMA), ("friends.gq", FRIENDS), ("workers.gq", WORKERS)):
        (work / name).write_text(text, encoding="utf-8")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "omnigraph").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omnigraph "$@"\n', encoding="utf-8")
    (bin_ / "omnigraph").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        **{f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")},
    }
    command = [str(NVIM), "--headless", "-n", "-u", str(tmp_path / "init.lua"), "-S", str(tmp_path / "scenario.lua")]

    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300, check=False)

    mistake = work / "mistake.txt"
    assert done.returncode == 0, (mistake.read_text(encoding="utf-8") if mistake.exists() else "", done.stderr)
    report = json.loads((work / "report.json").read_text(encoding="utf-8"))
    assert report["name"] == "omnigraph"
    assert report["diagnostic"]["message"].startswith("unknown property `aeg` of `Person`")
    assert report["diagnostic"]["line"] == 4
    # Neovim's columns are bytes.
    assert report["diagnostic"]["column"] == len("        /* 😀 */ $q.".encode())
    assert report["action"] == "Change to `age`"
    assert report["mended"] == "        /* 😀 */ $q.age > 30"
    assert "$q: Person" in report["hover"]
    assert "age" in report["completion"]
    assert report["definition"] == ["schema.pg", 6]
    assert "$q.years > 30" in report["files"]["friends.gq"]
    assert "$p.years as age" in report["files"]["workers.gq"]
    assert "years: I32?" in report["files"]["schema.pg"]

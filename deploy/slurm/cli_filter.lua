-- Ask Headroom before sbatch, srun or salloc hands a job to Slurm: /etc/slurm/cli_filter.lua with CliFilterPlugins=cli_filter/lua
--
-- Needs curl where jobs are submitted. Settings are lines NAME=value of /etc/slurm/headroom.conf, else of the environment:
--   HEADROOM_URL        address of the service; without one nothing is asked
--   HEADROOM_MODE       warn, refuse or change (warn)
--   HEADROOM_TOKEN      a key that may ask and no more: whoever submits jobs can read it
--   HEADROOM_FAIL       closed: refuse what was not answered (open)
--   HEADROOM_TIMEOUT_S  seconds that a job waits for an answer (5)
local FILE = "/etc/slurm/headroom.conf"
local MAX_SCRIPT = 262144
local TIMEOUT_S = 5
local MODES = {warn = true, refuse = true, change = true}

local function read_settings()
  local settings = {}
  local file = io.open(FILE, "r")
  if file then
    for line in file:lines() do
      local name, value = line:match("^%s*(HEADROOM_[A-Z_]+)%s*=%s*(.-)%s*$")
      if name then settings[name] = value:match('^"(.*)"$') or value end
    end
    file:close()
  end
  -- What the cluster says wins over what a user says.
  return function(name, default)
    return settings[name] or os.getenv(name) or default
  end
end

-- JSON is UTF-8: of a text that is not, the bytes beyond ASCII are of no use.
local function quote(text)
  if not (utf8 and utf8.len(text)) then text = text:gsub("[\128-\255]", "?") end
  return '"' .. text:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

-- Options of curl in its own file: neither a shell nor a list of processes sees them.
local function quote_option(text)
  return '"' .. text:gsub("[%c]", ""):gsub('[\\"]', "\\%0") .. '"'
end

local function write(text)
  -- mkstemp: a new file that its owner alone reads.
  local name = os.tmpname()
  local file = io.open(name, "w")
  if not file then return nil end
  file:write(text)
  file:close()
  return name
end

-- Opening a pipe, such as sbatch <(…) names, waits for who writes to it; Lua itself cannot tell one from a file.
local function is_regular(name)
  local pipe = io.popen("test -f '" .. name:gsub("'", "'\\''") .. "' && echo yes", "r")
  local answer = pipe and pipe:read("*l")
  if pipe then pipe:close() end
  return answer == "yes"
end

local function read_script(options)
  local argv = options["argv"]
  local name = argv and (argv[1] or argv[0])
  local file = name and is_regular(name) and io.open(name, "r")
  if not file then return nil end
  local text = file:read(MAX_SCRIPT)
  file:close()
  return text
end

local function build_body(command, options)
  local members = {'"command":' .. quote(command), '"options":' .. slurm.json_cli_options(options)}
  local script = command == "sbatch" and read_script(options)
  if script then members[#members + 1] = '"script":' .. quote(script) end
  local user, question = os.getenv("USER"), os.getenv("HEADROOM_QUESTION")
  if user then members[#members + 1] = '"user":' .. quote(user) end
  if question then members[#members + 1] = '"environment":{"HEADROOM_QUESTION":' .. quote(question) .. "}" end
  return "{" .. table.concat(members, ",") .. "}"
end

-- Below a millisecond curl would wait for ever.
local function read_timeout(get)
  local seconds = tonumber(get("HEADROOM_TIMEOUT_S", ""))
  if not seconds or seconds < 0.001 or seconds == math.huge then return TIMEOUT_S end
  return seconds
end

-- Return the lines of an answer, none where there was no answer.
local function ask(get, url, body)
  local mode = get("HEADROOM_MODE", "warn")
  if not MODES[mode] then
    slurm.log_info("headroom: HEADROOM_MODE is '%s', and not warn, refuse or change; warn it is", mode)
    mode = "warn"
  end
  local sent = write(body)
  if not sent then return {} end
  local lines = {
    "url = " .. quote_option(url:gsub("/+$", "") .. "/v1/hooks/slurm/" .. mode),
    "data-binary = " .. quote_option("@" .. sent),
    'header = "Content-Type: application/json"',
    'header = "Accept: text/plain"',
    "max-time = " .. read_timeout(get),
    "silent",
    "fail",
  }
  local token = get("HEADROOM_TOKEN", "")
  if token ~= "" then lines[#lines + 1] = "header = " .. quote_option("Authorization: Bearer " .. token) end
  local config = write(table.concat(lines, "\n") .. "\n")
  local answer = {}
  if config and config:match("^[%w/._-]+$") then
    local pipe = io.popen("curl --disable --config " .. config .. " 2>/dev/null", "r")
    if pipe then
      for line in pipe:lines() do answer[#answer + 1] = line end
      pipe:close()
    end
  end
  os.remove(sent)
  if config then os.remove(config) end
  return answer
end

-- Set what the answer says: the GPUs of a job that is changed, and the comment by which its nodes know what ran.
local function set_options(options, lines)
  for index = 3, #lines do
    local name, value = lines[index]:match("^([%l-]+)=(.+)$")
    if name then options[name] = value end
  end
end

local function fail(get)
  if get("HEADROOM_FAIL", "open") == "closed" then
    slurm.log_error("headroom: no answer, and HEADROOM_FAIL is closed: the job was not submitted")
    return slurm.ERROR
  end
  slurm.log_info("headroom: no answer; the job is submitted all the same")
  return slurm.SUCCESS
end

local function review(options)
  local get = read_settings()
  local url = get("HEADROOM_URL", "")
  local command = options["type"] or "sbatch"
  -- A step of a job that runs was answered for when the job was submitted.
  if url == "" or (command == "srun" and os.getenv("SLURM_JOB_ID")) then return slurm.SUCCESS end
  local lines = ask(get, url, build_body(command, options))
  local action, sentence = lines[1], lines[2] or ""
  if action == "refuse" then
    slurm.log_error("%s", sentence)
    return slurm.ERROR
  elseif action ~= "allow" and action ~= "warn" and action ~= "change" then
    return fail(get)
  end
  set_options(options, lines)
  if action ~= "allow" then slurm.log_info("%s", sentence) end
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
  local done, result = pcall(review, options)
  if done then return result end
  slurm.log_info("headroom: %s", tostring(result))
  return fail(read_settings())
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end

-- Look at a job's question inside slurmctld: /etc/slurm/job_submit.lua with JobSubmitPlugins=lua
--
-- It reads what the job says and warns its user; it asks nobody, and neither refuses nor changes a job, for the controller waits
-- while it runs. A line HEADROOM_WANT_QUESTION=yes in /etc/slurm/headroom.conf warns of jobs with GPUs that ask no question, too.
local FILE = "/etc/slurm/headroom.conf"
local NO_NUMBER = 0xfffffffd
local MARK = "headroom:"
local DEGREES = {"tensor-parallel", "pipeline-parallel", "context-parallel"}

local function wants_question()
  local file = io.open(FILE, "r")
  local wants = false
  if file then
    for line in file:lines() do
      if line:match("^%s*HEADROOM_WANT_QUESTION%s*=%s*\"?yes\"?%s*$") then wants = true end
    end
    file:close()
  end
  return wants
end

local function count(tres)
  local total = 0
  for part in (tres or ""):gmatch("[^,]+") do
    if part:match("^gres[/:]gpu") then
      total = total + (tonumber(part:match("[:=](%d+)$")) or 1)
    end
  end
  return total
end

-- What nobody said is one of the last numbers of 16 or 32 bits.
local function at_least_one(number)
  if not number or number == 0 or number == 0xfffe or number == 0xffff or number >= NO_NUMBER then return 1 end
  return number
end

local function count_gpus(job)
  local per_node = count(job.tres_per_node)
  if per_node > 0 then return per_node * at_least_one(job.min_nodes) end
  local of_job = count(job.tres_per_job)
  if of_job > 0 then return of_job end
  return count(job.tres_per_task) * at_least_one(job.num_tasks)
end

local function find_question(job)
  local comment = job.comment or ""
  if comment:sub(1, #MARK) == MARK then return comment:sub(#MARK + 1) end
  local lines = {}
  for line in (job.script or ""):gmatch("[^\n]+") do
    local words = line:match("^#HEADROOM%s+(.*)$")
    if words then lines[#lines + 1] = words end
  end
  if #lines > 0 then return table.concat(lines, " ") end
  local done, text = pcall(function() return job.environment["HEADROOM_QUESTION"] end)
  return done and text or nil
end

local function read_degree(question, name)
  local plain = name:gsub("%-", "%%-")
  return tonumber((" " .. question .. " "):match("%s%-%-" .. plain .. "[%s=]+(%d+)%s"))
end

local function review(job)
  local gpus = count_gpus(job)
  -- What headroom submit sends was answered for when it was planned.
  if gpus == 0 or (job.comment or ""):match("^headroom%-submission:") then return end
  local question = find_question(job)
  if not question then
    if wants_question() then
      slurm.log_user("headroom: nobody asked whether this job fits; say its question in a line #HEADROOM of the script")
    end
    return
  end
  local degree = 1
  for _, name in ipairs(DEGREES) do degree = degree * (read_degree(question, name) or 1) end
  local replicas = read_degree(question, "data-parallel")
  if replicas and replicas * degree ~= gpus then
    slurm.log_user("headroom: the question is of %d GPUs, and the job asks for %d", replicas * degree, gpus)
  elseif not replicas and gpus % degree ~= 0 then
    slurm.log_user("headroom: the question splits a model over %d GPUs, and the job asks for %d", degree, gpus)
  end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  local done, reason = pcall(review, job_desc)
  if not done then slurm.log_info("headroom: %s", tostring(reason)) end
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

-- The health of a Broker, Topic, ConsumerGroup or User for Argo CD, from the conditions of its status.
--
-- examples/argocd/argocd-cm.yaml has it for the ConfigMap of Argo CD.

local function answer(status, message)
  return { status = status, message = message or "" }
end

local status = obj.status or {}
local generation = obj.metadata.generation or 0
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function holds(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end

local ready = conditions["Ready"]

if obj.metadata.deletionTimestamp ~= nil then
  return answer("Progressing", "it is being deleted")
end
if ready == nil or (status.observedGeneration or generation) < generation then
  return answer("Progressing", "the operator has not looked at it yet")
end
if holds("Stalled") then
  if conditions["Stalled"].reason == "Paused" then
    return answer("Suspended", conditions["Stalled"].message)
  end
  return answer("Degraded", conditions["Stalled"].message)
end
if holds("Degraded") then
  return answer("Degraded", conditions["Degraded"].message)
end
if ready.status == "True" then
  return answer("Healthy", ready.message)
end
return answer("Progressing", ready.message)

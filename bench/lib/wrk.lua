-- For wrk: requests at random the paths of a file, one a line, if the file is given as an argument, and prints the
-- last line of the report as JSON.
local paths = {}

function init(arguments)
   if not arguments[1] then return end
   for path in io.lines(arguments[1]) do paths[#paths + 1] = path end
   request = function() return wrk.format(nil, paths[math.random(#paths)]) end
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '\n{"requests": %d, "micros": %d, "connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d, '
         .. '"p50": %d, "p99": %d, "longest": %d}\n',
      summary.requests, summary.duration, errors.connect, errors.read, errors.write, errors.status, errors.timeout,
      latency:percentile(50), latency:percentile(99), latency.max))
end

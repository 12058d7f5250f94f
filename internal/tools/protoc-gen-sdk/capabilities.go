package main

// capability is a function that a plugin imports and whose answer is a status. Those that
// move bytes, and those without an answer, are written by hand in each SDK: see byHand.
type capability struct {
	group, function string // of the module wasmnode:GROUP/v1
	request         string // the message that it takes; "": none
	stream          bool   // it takes the number of a stream
	response        string // the message that it answers; "": none
	doc             string
}

var capabilities = []capability{
	{"task", "event", "TaskEvent", false, "", "Shows an event among the task's."},
	{"task", "marked", "", true, "OutputMark", "Answers what was last remembered with a stream of the task's output: 1 is standard output, 2 standard error."},
	{"wasm", "start", "WasmStartRequest", false, "WasmStartResponse", "Starts a WASI program as the task's workload."},
	{"process", "start", "ProcessStartRequest", false, "ProcessStartResponse", "Starts a process of the operating system as the task's workload."},
	{"process", "support", "ProcessSupportRequest", false, "ProcessSupport", "Answers what this node can do with processes."},
	{"process", "run", "ProcessRunRequest", false, "ProcessRunResponse", "Runs a helper, a program of the node's, to its end. Waits."},
	{"stream", "poll", "StreamPollRequest", false, "StreamPollResponse", "Waits until one of some streams can go on."},
	{"net", "dial", "NetDialRequest", false, "NetDialResponse", "Connects over TCP, with or without TLS, or to a unix socket. Waits."},
	{"http", "request", "HttpRequest", false, "HttpRequestResponse", "Begins to send a request of HTTP."},
	{"http", "response", "", true, "HttpResponse", "Answers the head of a response. Waits."},
	{"http", "trailers", "", true, "HttpTrailers", "Answers the headers after a body, once that was read to its end."},
	{"kv", "get", "KvGetRequest", false, "KvGetResponse", "Answers a value that the plugin keeps, and its version."},
	{"kv", "set", "KvSetRequest", false, "KvSetResponse", "Keeps a value, durably. Waits."},
	{"kv", "delete", "KvDeleteRequest", false, "KvDeleteResponse", "Keeps a value no longer. Waits."},
	{"kv", "list", "KvListRequest", false, "KvListResponse", "Answers the keys that begin with a prefix."},
	{"exec", "open", "", false, "ExecStreams", "Opens the streams of the command that the call is about, once."},
	{"workload", "signal", "WorkloadSignalRequest", false, "WorkloadSignalResponse", "Sends a signal to a workload of the task that the call is about."},
	{"workload", "stop", "WorkloadStopRequest", false, "WorkloadStopResponse", "Asks such a workload to end, and kills it after a time. Waits."},
	{"workload", "wait", "WorkloadWaitRequest", false, "WorkloadWaitResponse", "Waits for the end of such a workload."},
	{"workload", "stats", "WorkloadStatsRequest", false, "WorkloadStatsResponse", "Answers what such a workload uses."},
	{"workload", "inspect", "WorkloadInspectRequest", false, "WorkloadInspectResponse", "Answers whether such a workload runs, and how it ended."},
	{"workload", "exec", "WorkloadExecRequest", false, "WorkloadExecResponse", "Runs a command in such a workload to its end. Waits."},
}

// byHand are the functions whose signatures are no messages.
var byHand = []capability{
	{group: "abi", function: "input", doc: "Copies the request of the call."},
	{group: "abi", function: "output", doc: "Hands over the answer, once."},
	{group: "abi", function: "result", doc: "Copies the answer of the last capability."},
	{group: "log", function: "write", doc: "Writes a line to the node's log, with fields."},
	{group: "task", function: "refresh", doc: "Asks the node to poll the fingerprint soon."},
	{group: "task", function: "output", doc: "Writes to the log files of the task that the call is about."},
	{group: "task", function: "mark", doc: "Remembers up to 256 bytes with what a stream of the task's output has so far."},
	{group: "stream", function: "read", doc: "Reads from a stream: 0 is its end. Waits."},
	{group: "stream", function: "write", doc: "Writes to a stream: at least one byte is taken. Waits."},
	{group: "stream", function: "shutdown", doc: "Has the other side read the end. Reading goes on."},
	{group: "stream", function: "close", doc: "Closes a stream."},
	{group: "stream", function: "blocking", doc: "Says whether reads and writes of a stream wait."},
}

// module returns the module that the function is imported from.
func (c capability) module() string { return "wasmnode:" + c.group + "/v1" }

// name returns "process_run".
func (c capability) name() string { return c.group + "_" + c.function }

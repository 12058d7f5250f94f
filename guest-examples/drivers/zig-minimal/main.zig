//! The driver plugin "zig_minimal": runs the WASI program that its config names. Zig with the
//! SDK and nothing else.

const std = @import("std");
const wasmnode = @import("wasmnode");
const Allocator = std.mem.Allocator;

pub const panic = wasmnode.panic;
pub const std_options = wasmnode.std_options;

comptime {
    wasmnode.plugin(@This());
}

const task_schema =
    \\{
    \\  "type": "object",
    \\  "additionalProperties": false,
    \\  "required": ["module"],
    \\  "properties": {
    \\    "module": {"type": "string", "minLength": 1, "description": "The WASI program to run."},
    \\    "args": {"type": "array", "items": {"type": "string"}, "description": "Its arguments."}
    \\  }
    \\}
;

const Config = struct {
    module: []const u8 = "",
    args: []const []const u8 = &.{},
};

pub fn driverDescribe(_: Allocator, _: wasmnode.DriverDescribeRequest) !wasmnode.DriverDescribeResponse {
    return .{ .name = "zig_minimal", .version = "0.1.0", .task_config_schema = task_schema };
}

pub fn driverConfigure(_: Allocator, _: wasmnode.DriverConfigureRequest) !wasmnode.DriverConfigureResponse {
    return .{};
}

pub fn driverFingerprint(_: Allocator, _: wasmnode.DriverFingerprintRequest) !wasmnode.DriverFingerprintResponse {
    return .{ .health = .healthy, .description = "Healthy" };
}

pub fn driverStartTask(arena: Allocator, request: wasmnode.DriverStartTaskRequest) !wasmnode.DriverStartTaskResponse {
    const task = request.task orelse return wasmnode.fail(.invalid_argument, "there is no task", .{});
    const config = try wasmnode.parseConfig(Config, arena, task.driver_config);
    if (config.module.len == 0) return wasmnode.fail(.invalid_argument, "config: module is missing", .{});
    const started = try wasmnode.wasmStart(arena, .{ .module = config.module, .args = config.args, .env = task.env });
    return .{ .handle = .{ .version = 1, .workload_id = started.workload_id } };
}

// ---- Tests ----

const testing = wasmnode.testing;
const expect = std.testing.expect;
const expectEqualStrings = std.testing.expectEqualStrings;

fn start(arena: Allocator, config: []const u8) !wasmnode.DriverStartTaskResponse {
    const task = wasmnode.TaskConfig{ .driver_config = config, .env = &.{.{ .key = "A", .value = "1" }} };
    return driverStartTask(arena, .{ .task = task });
}

test "a task is the program that its config names" {
    const arena = testing.begin();
    defer testing.end();
    try testing.answer("wasm_start", wasmnode.WasmStartResponse{ .workload_id = "workload" });
    const handle = (try start(arena, "{\"module\": \"local/app.wasm\", \"args\": [\"-v\"]}")).handle.?;
    try expect(handle.version == 1);
    try expectEqualStrings("workload", handle.workload_id);

    const program = try testing.asked(wasmnode.WasmStartRequest, "wasm_start");
    try expectEqualStrings("local/app.wasm", program.module);
    try expectEqualStrings("-v", program.args[0]);
    try expectEqualStrings("1", program.env[0].value);
}

test "what the node refuses is the start's error" {
    const arena = testing.begin();
    defer testing.end();
    try testing.refuse("wasm_start", .{ .code = .not_found, .message = "no such file", .recoverable = true });
    try std.testing.expectError(error.NotFound, start(arena, "{\"module\": \"gone\"}"));
    try std.testing.expectEqualDeep(wasmnode.Error{ .code = .not_found, .message = "no such file", .recoverable = true }, wasmnode.lastError());
    try std.testing.expectError(error.InvalidArgument, start(arena, "{}"));
    try expectEqualStrings("config: module is missing", wasmnode.lastError().message);
}

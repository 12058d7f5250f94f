//! The device plugin "zig_example": the files in a directory are devices, for learning and for
//! tests. An empty file is a device that is unhealthy. Zig with the SDK and nothing else.

const std = @import("std");
const wasmnode = @import("wasmnode");
const Allocator = std.mem.Allocator;

pub const panic = wasmnode.panic;
pub const std_options = wasmnode.std_options;

comptime {
    wasmnode.plugin(@This());
}

const plugin_schema =
    \\{
    \\  "type": "object",
    \\  "additionalProperties": false,
    \\  "required": ["dir"],
    \\  "properties": {
    \\    "dir": {
    \\      "type": "string",
    \\      "minLength": 1,
    \\      "maxLength": 4000,
    \\      "description": "The directory whose files are the devices. The plugin needs a grant to read it."
    \\    }
    \\  }
    \\}
;

const Config = struct { dir: []const u8 = "" };

const group = wasmnode.DeviceGroupId{ .vendor = "nomad", .type = "file", .name = "zig_example" };

/// The directory of the configuration, which each instance gets before anything else: what an
/// arena allocates lasts until the next operation only.
var dir_room: [4096]u8 = undefined;
var dir: []const u8 = "";

const File = struct {
    name: []const u8,
    size: i64,
    modified: i64,

    fn before(_: void, a: File, b: File) bool {
        return std.mem.lessThan(u8, a.name, b.name);
    }
};

fn unavailable(why: anyerror) wasmnode.Failure {
    return wasmnode.fail(.unavailable, "open {s}: {s}: is the directory granted to this plugin?", .{ dir, @errorName(why) });
}

/// The regular files in the directory, by name.
fn files(arena: Allocator) ![]const File {
    var open = wasmnode.openDir(arena, dir) catch |why| return unavailable(why);
    defer open.close();
    var found = std.ArrayListUnmanaged(File){};
    var entries = open.iterate();
    while (entries.next() catch |why| return unavailable(why)) |entry| {
        if (entry.kind != .file) continue;
        const about = open.statFile(entry.name) catch continue; // it is gone by now
        try found.append(arena, .{
            .name = try arena.dupe(u8, entry.name),
            .size = @intCast(about.size),
            .modified = @intCast(@divFloor(about.mtime, std.time.ns_per_s)),
        });
    }
    std.mem.sort(File, found.items, {}, File.before);
    return found.items;
}

pub fn deviceDescribe(_: Allocator, _: wasmnode.DeviceDescribeRequest) !wasmnode.DeviceDescribeResponse {
    return .{ .name = "zig_example", .version = "0.1.0", .plugin_config_schema = plugin_schema };
}

pub fn deviceConfigure(arena: Allocator, request: wasmnode.DeviceConfigureRequest) !wasmnode.DeviceConfigureResponse {
    const config = try wasmnode.parseConfig(Config, arena, request.config);
    if (config.dir.len == 0) return wasmnode.fail(.invalid_argument, "config: dir is missing", .{});
    if (config.dir.len > dir_room.len) return wasmnode.fail(.invalid_argument, "config: dir has more than {d} bytes", .{dir_room.len});
    @memcpy(dir_room[0..config.dir.len], config.dir);
    dir = dir_room[0..config.dir.len];
    return .{};
}

pub fn deviceFingerprint(arena: Allocator, _: wasmnode.DeviceFingerprintRequest) !wasmnode.DeviceFingerprintResponse {
    const found = try files(arena);
    if (found.len == 0) return .{ .next_poll_ms = 1000 };
    const devices = try arena.alloc(wasmnode.Device, found.len);
    for (found, devices) |f, *device| {
        device.* = .{ .id = f.name, .healthy = f.size > 0 };
        if (!device.healthy) device.health_description = "the file is empty";
    }
    const attributes = try arena.dupe(wasmnode.AttributeEntry, &.{.{ .key = "dir", .value = .{ .value = .{ .string_value = dir } } }});
    const groups = try arena.dupe(wasmnode.DeviceGroup, &.{.{ .id = group, .devices = devices, .attributes = attributes }});
    return .{ .groups = groups, .next_poll_ms = 1000 };
}

pub fn deviceReserve(arena: Allocator, request: wasmnode.DeviceReserveRequest) !wasmnode.DeviceReserveResponse {
    var open = wasmnode.openDir(arena, dir) catch |why| return unavailable(why);
    defer open.close();
    const mounts = try arena.alloc(wasmnode.EditedMount, request.device_ids.len);
    for (request.device_ids, mounts) |id, *mount| {
        _ = open.statFile(id) catch return wasmnode.fail(.not_found, "device {s} is gone", .{id});
        mount.* = .{
            .host_path = try std.fmt.allocPrint(arena, "{s}/{s}", .{ dir, id }),
            .container_path = try std.fmt.allocPrint(arena, "/devices/{s}", .{id}),
        };
    }
    const ids = try std.mem.join(arena, ",", request.device_ids);
    const env = try arena.dupe([]const u8, &.{try std.fmt.allocPrint(arena, "EXAMPLE_DEVICES={s}", .{ids})});
    return .{ .container_edits = .{ .env = env, .mounts = mounts } };
}

pub fn deviceStats(arena: Allocator, _: wasmnode.DeviceStatsRequest) !wasmnode.DeviceStatsResponse {
    const found = try files(arena);
    if (found.len == 0) return .{};
    const entries = try arena.alloc(wasmnode.DeviceStatsEntry, found.len);
    for (found, entries) |f, *entry| {
        const size = wasmnode.StatValue{ .value = .{ .int_value = f.size }, .unit = "B", .description = "Size of the file" };
        const modified = wasmnode.StatValue{ .value = .{ .int_value = f.modified }, .unit = "s" };
        const stats = try arena.dupe(wasmnode.DeviceStat, &.{
            .{ .path = &.{ "file", "size" }, .value = size },
            .{ .path = &.{ "file", "modified" }, .value = modified },
        });
        entry.* = .{ .key = f.name, .value = .{ .summary = size, .stats = stats } };
    }
    return .{ .groups = try arena.dupe(wasmnode.DeviceGroupStats, &.{.{ .id = group, .devices = entries }}) };
}

// ---- Tests ----

const testing = wasmnode.testing;
const expect = std.testing.expect;
const expectEqualStrings = std.testing.expectEqualStrings;

test "every file is a device" {
    const arena = testing.begin();
    defer testing.end();
    var tmp = std.testing.tmpDir(.{});
    defer tmp.cleanup();
    try tmp.dir.writeFile(.{ .sub_path = "a", .data = "123" });
    try tmp.dir.writeFile(.{ .sub_path = "b", .data = "" });
    const path = try tmp.dir.realpathAlloc(arena, ".");
    _ = try deviceConfigure(arena, .{ .config = try std.fmt.allocPrint(arena, "{{\"dir\": \"{s}\"}}", .{path}) });

    const found = (try deviceFingerprint(arena, .{})).groups[0].devices;
    try expect(found.len == 2 and found[0].healthy and !found[1].healthy);
    const edits = (try deviceReserve(arena, .{ .device_ids = &.{"a"} })).container_edits.?;
    try expectEqualStrings("EXAMPLE_DEVICES=a", edits.env[0]);
    try expectEqualStrings("/devices/a", edits.mounts[0].container_path);
    try std.testing.expectError(error.NotFound, deviceReserve(arena, .{ .device_ids = &.{"c"} }));
}

test "a directory that is not there is unavailable" {
    const arena = testing.begin();
    defer testing.end();
    _ = try deviceConfigure(arena, .{ .config = "{\"dir\": \"/nonexistent\"}" });
    try std.testing.expectError(error.Unavailable, deviceFingerprint(arena, .{}));
    try std.testing.expectError(error.InvalidArgument, deviceConfigure(arena, .{ .config = "{}" }));
}

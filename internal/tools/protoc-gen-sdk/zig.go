package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// zigTypes are the types of values in Zig, each with the value of a member that is not set.
var zigTypes = map[protoreflect.Kind]struct{ name, unset string }{
	protoreflect.BoolKind:   {"bool", "false"},
	protoreflect.Int32Kind:  {"i32", "0"},
	protoreflect.Uint32Kind: {"u32", "0"},
	protoreflect.Int64Kind:  {"i64", "0"},
	protoreflect.Uint64Kind: {"u64", "0"},
	protoreflect.DoubleKind: {"f64", "0"},
	protoreflect.StringKind: {"[]const u8", `""`},
	protoreflect.BytesKind:  {"[]const u8", `""`},
}

// zigKeywords are those of Zig's that a name of the schema may be.
var zigKeywords = []string{
	"align", "and", "async", "await", "break", "catch", "const", "continue", "defer", "else", "enum", "error", "export",
	"extern", "fn", "for", "if", "inline", "or", "orelse", "packed", "pub", "resume", "return", "struct", "suspend", "switch",
	"test", "try", "union", "unreachable", "var", "volatile", "while",
}

// zigSource returns the generated part of wasmnode.zig.
func zigSource(s *schema) string {
	var b strings.Builder
	for _, e := range s.enums {
		zigEnum(&b, e)
		if e.Desc.Name() == "ErrorCode" {
			zigFailures(&b, e)
		}
	}
	for _, m := range s.messages {
		zigStruct(&b, m)
	}
	zigList(&b, "messages", "All messages, with their names.", func() {
		for _, m := range s.messages {
			if !m.Desc.IsMapEntry() {
				fmt.Fprintf(&b, "    .{ %q, %s },\n", m.Desc.Name(), m.Desc.Name())
			}
		}
	})
	zigList(&b, "operations", "What a plugin exports, the function that does it, its request and its response.", func() {
		for _, o := range s.operations {
			fmt.Fprintf(&b, "    .{ %q, %q, %sRequest, %sResponse },\n", o.name, camel(o.name), o.message, o.message)
		}
	})
	zigImports(&b)
	for _, c := range capabilities {
		zigCapability(&b, c)
	}
	b.WriteByte('\n')
	return b.String()
}

func zigList(b *strings.Builder, name, doc string, elements func()) {
	fmt.Fprintf(b, "\n/// %s\npub const %s = .{\n", doc, name)
	elements()
	b.WriteString("};\n")
}

func zigComment(b *strings.Builder, indent string, lines []string) {
	for _, line := range lines {
		b.WriteString(strings.TrimRight(indent+"/// "+line, " ") + "\n")
	}
}

func zigName(name string) string {
	if slices.Contains(zigKeywords, name) {
		return `@"` + name + `"`
	}
	return name
}

// zigEnum writes an enum that a later version may have further values of.
func zigEnum(b *strings.Builder, e *protogen.Enum) {
	b.WriteByte('\n')
	zigComment(b, "", comment(e.Comments.Leading))
	fmt.Fprintf(b, "pub const %s = enum(i32) {\n", e.Desc.Name())
	for _, v := range e.Values {
		zigComment(b, "    ", comment(v.Comments.Leading))
		fmt.Fprintf(b, "    %s = %d,\n", zigName(valueName(e, v)), v.Desc.Number())
	}
	b.WriteString("    _,\n};\n")
}

// valueName returns "not_found" for ERROR_CODE_NOT_FOUND.
func valueName(e *protogen.Enum, v *protogen.EnumValue) string {
	return strings.ToLower(strings.TrimPrefix(string(v.Desc.Name()), strings.ToUpper(snake(string(e.Desc.Name())))+"_"))
}

// zigFailures writes the errors that Zig's functions return, one for each code.
func zigFailures(b *strings.Builder, e *protogen.Enum) {
	var set, codes, failures strings.Builder
	for _, v := range e.Values[1:] { // the first is success
		name := valueName(e, v)
		failure := strings.ToUpper(name[:1]) + camel(name)[1:]
		fmt.Fprintf(&set, "    %s,\n", failure)
		fmt.Fprintf(&codes, "        error.%s => .%s,\n", failure, name)
		fmt.Fprintf(&failures, "        .%s => error.%s,\n", name, failure)
	}
	fmt.Fprintf(b, "\n/// Failure is an error with its code. `lastError` has its text.\npub const Failure = std.mem.Allocator.Error || error{\n%s};\n", &set)
	fmt.Fprintf(b, "\n/// Returns the code of an error; that of one without a code is unknown.\npub fn codeOf(failure: anyerror) ErrorCode {\n    return switch (failure) {\n%s        error.OutOfMemory => .resource_exhausted,\n        else => .unknown,\n    };\n}\n", &codes)
	fmt.Fprintf(b, "\n/// Returns the error with a code.\npub fn failureOf(code: ErrorCode) Failure {\n    return switch (code) {\n%s        else => error.Unknown,\n    };\n}\n", &failures)
}

// zigStruct writes a message. What the codec knows of it are the numbers of its members.
func zigStruct(b *strings.Builder, m *protogen.Message) {
	b.WriteByte('\n')
	zigComment(b, "", commentOf(m))
	fmt.Fprintf(b, "pub const %s = struct {\n", nameOf(m))
	for _, f := range m.Fields {
		switch {
		case !isChoice(f):
			zigComment(b, "    ", comment(f.Comments.Leading))
			kind, unset := zigMember(m, f)
			fmt.Fprintf(b, "    %s: %s = %s,\n", zigName(string(f.Desc.Name())), kind, unset)
		case f == f.Oneof.Fields[0]:
			zigComment(b, "    ", comment(f.Oneof.Comments.Leading))
			fmt.Fprintf(b, "    %s: ?%s = null,\n", f.Oneof.Desc.Name(), f.Oneof.GoName)
		}
	}
	if len(m.Fields) > 0 {
		b.WriteByte('\n')
	}
	for _, o := range m.Oneofs {
		zigChoice(b, o)
	}
	zigNumbers(b, m)
	b.WriteString("};\n")
}

func zigChoice(b *strings.Builder, o *protogen.Oneof) {
	if o.Desc.IsSynthetic() {
		return
	}
	fmt.Fprintf(b, "    pub const %s = union(enum) {\n", o.GoName)
	for _, f := range o.Fields {
		fmt.Fprintf(b, "        %s: %s,\n", zigName(string(f.Desc.Name())), zigTypes[f.Desc.Kind()].name)
	}
	b.WriteString("    };\n\n")
}

// zigNumbers writes the members in the order in which Go encodes them: number and name, and the
// name within a choice. The members of a map's entry are always written.
func zigNumbers(b *strings.Builder, m *protogen.Message) {
	if m.Desc.IsMapEntry() {
		b.WriteString("    pub const always = true;\n")
	}
	if len(m.Fields) == 0 {
		b.WriteString("    pub const numbers = .{};\n")
		return
	}
	b.WriteString("    pub const numbers = .{\n")
	for _, f := range inOrder(m) {
		if isChoice(f) {
			fmt.Fprintf(b, "        .{ %d, %q, %q },\n", f.Desc.Number(), f.Oneof.Desc.Name(), f.Desc.Name())
		} else {
			fmt.Fprintf(b, "        .{ %d, %q },\n", f.Desc.Number(), f.Desc.Name())
		}
	}
	b.WriteString("    };\n")
}

// zigMember returns the type of a member, and its value when it is not set.
func zigMember(m *protogen.Message, f *protogen.Field) (kind, unset string) {
	kind, unset = zigTypes[f.Desc.Kind()].name, zigTypes[f.Desc.Kind()].unset
	switch {
	case f.Message != nil:
		kind, unset = nameOf(f.Message), ".{}"
	case f.Enum != nil:
		kind, unset = string(f.Enum.Desc.Name()), "."+zigName(valueName(f.Enum, f.Enum.Values[0]))
	}
	switch {
	case f.Desc.IsMap() || f.Desc.IsList():
		return "[]const " + kind, "&.{}"
	case f.Desc.HasOptionalKeyword(), f.Message != nil && !m.Desc.IsMapEntry():
		return "?" + kind, "null"
	default:
		return kind, unset
	}
}

// zigImports declares the functions of the node, each module's in a namespace of its own.
func zigImports(b *strings.Builder) {
	b.WriteString("\nconst imports = struct {\n")
	group := ""
	for _, c := range capabilities {
		if c.group != group {
			if group != "" {
				b.WriteString("    };\n")
			}
			group = c.group
			fmt.Fprintf(b, "    const %s = struct {\n", group)
		}
		taken := ""
		switch {
		case c.request != "":
			taken = "from: [*]const u8, length: u32"
		case c.stream:
			taken = "stream: u32"
		}
		fmt.Fprintf(b, "        extern %q fn %s(%s) u64;\n", c.module(), c.function, taken)
	}
	b.WriteString("    };\n};\n")
}

func zigCapability(b *strings.Builder, c capability) {
	taken, passed, tested := "", "", `""`
	response := "void"
	switch {
	case c.request != "":
		taken, passed, tested = ", request: "+c.request, "bytes.ptr, @intCast(bytes.len)", "bytes"
	case c.stream:
		taken, passed = ", stream: u32", "stream"
	}
	if c.response != "" {
		response = c.response
	}
	fmt.Fprintf(b, "\n/// %s\npub fn %s(arena: std.mem.Allocator%s) Failure!%s {\n", c.doc, camel(c.name()), taken, response)
	if c.request != "" {
		b.WriteString("    const bytes = try wire.encode(arena, request);\n")
	}
	fmt.Fprintf(b, "    const status = if (host.on_node) imports.%s.%s(%s) else testing.capability(%q, %s);\n", c.group, c.function, passed, c.name(), tested)
	if c.response == "" {
		b.WriteString("    return host.done(arena, status);\n}\n")
	} else {
		fmt.Fprintf(b, "    return host.answered(%s, arena, status);\n}\n", response)
	}
}

// camel returns "driverStartTask" for "driver_start_task".
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToUpper(part[:1]) + part[1:]
	}
	return strings.Join(parts, "")
}

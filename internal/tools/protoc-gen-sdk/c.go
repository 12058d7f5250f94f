package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// cTypes are the types of values in C, and their kinds in the tables of the codec.
var cTypes = map[protoreflect.Kind]struct{ name, kind string }{
	protoreflect.BoolKind:   {"bool", "WN_BOOL"},
	protoreflect.EnumKind:   {"int32_t", "WN_INT32"},
	protoreflect.Int32Kind:  {"int32_t", "WN_INT32"},
	protoreflect.Uint32Kind: {"uint32_t", "WN_UINT32"},
	protoreflect.Int64Kind:  {"int64_t", "WN_INT64"},
	protoreflect.Uint64Kind: {"uint64_t", "WN_INT64"},
	protoreflect.DoubleKind: {"double", "WN_DOUBLE"},
	protoreflect.StringKind: {"wn_string", "WN_STRING"},
	protoreflect.BytesKind:  {"wn_string", "WN_STRING"},
}

// cMacros are names that <stdio.h> may define, so that no member can have them.
var cMacros = []string{"stdin", "stdout", "stderr"}

// cSource returns the generated part of the header.
func cSource(s *schema) string {
	var b strings.Builder
	for _, e := range s.enums {
		cEnum(&b, e)
	}
	for _, m := range s.messages {
		cStruct(&b, m)
	}
	for _, m := range s.messages {
		cTable(&b, m)
	}
	b.WriteString("\n/* WN_MESSAGES(X) is X(NAME) for each message. */\n#define WN_MESSAGES(X)")
	for _, m := range s.messages {
		if !m.Desc.IsMapEntry() {
			fmt.Fprintf(&b, " \\\n  X(%s)", m.Desc.Name())
		}
	}
	b.WriteByte('\n')
	for _, o := range s.operations {
		cOperation(&b, o)
	}
	for _, c := range capabilities {
		cCapability(&b, c)
	}
	b.WriteByte('\n')
	return b.String()
}

func cComment(b *strings.Builder, indent string, lines []string) {
	switch len(lines) {
	case 0:
	case 1:
		fmt.Fprintf(b, "%s/* %s */\n", indent, lines[0])
	default:
		fmt.Fprintf(b, "%s/* %s */\n", indent, strings.Join(lines, "\n"+indent+" * "))
	}
}

func cEnum(b *strings.Builder, e *protogen.Enum) {
	name := string(e.Desc.Name())
	b.WriteByte('\n')
	cComment(b, "", comment(e.Comments.Leading))
	fmt.Fprintf(b, "typedef int32_t wn_%s;\nenum {\n", name)
	for _, v := range e.Values {
		cComment(b, "  ", comment(v.Comments.Leading))
		fmt.Fprintf(b, "  WN_%s = %d,\n", v.Desc.Name(), v.Desc.Number())
	}
	b.WriteString("};\n")
}

func cStruct(b *strings.Builder, m *protogen.Message) {
	name := nameOf(m)
	b.WriteByte('\n')
	cComment(b, "", commentOf(m))
	fmt.Fprintf(b, "typedef struct wn_%s {\n", name)
	if len(m.Fields) == 0 {
		b.WriteString("  char empty; /* C has no empty structures */\n")
	}
	for _, f := range m.Fields {
		switch {
		case !isChoice(f):
			cComment(b, "  ", comment(f.Comments.Leading))
			cMember(b, f)
		case f == f.Oneof.Fields[0]:
			cUnion(b, f.Oneof)
		}
	}
	fmt.Fprintf(b, "} wn_%s;\n", name)
}

func cUnion(b *strings.Builder, o *protogen.Oneof) {
	cComment(b, "  ", append([]string{"The member that is set, by its number; 0: none is."}, comment(o.Comments.Leading)...))
	fmt.Fprintf(b, "  uint32_t %s_case;\n  union {\n", o.Desc.Name())
	for _, f := range o.Fields {
		fmt.Fprintf(b, "    %s %s; /* %d */\n", cTypes[f.Desc.Kind()].name, cName(f), f.Desc.Number())
	}
	b.WriteString("  };\n")
}

func cMember(b *strings.Builder, f *protogen.Field) {
	switch {
	case f.Desc.IsMap() || f.Desc.IsList():
		fmt.Fprintf(b, "  const %s *%s;\n  uint32_t %s_count;\n", cType(f), cName(f), f.Desc.Name())
	case f.Message != nil:
		fmt.Fprintf(b, "  const wn_%s *%s;\n", nameOf(f.Message), cName(f))
	default:
		if f.Desc.HasOptionalKeyword() {
			fmt.Fprintf(b, "  bool has_%s;\n", f.Desc.Name())
		}
		fmt.Fprintf(b, "  %s %s;\n", cType(f), cName(f))
	}
}

func cType(f *protogen.Field) string {
	switch {
	case f.Message != nil:
		return "wn_" + nameOf(f.Message)
	case f.Enum != nil:
		return "wn_" + string(f.Enum.Desc.Name())
	default:
		return cTypes[f.Desc.Kind()].name
	}
}

func cName(f *protogen.Field) string {
	name := string(f.Desc.Name())
	if slices.Contains(cMacros, name) {
		return name + "_"
	}
	return name
}

// cTable writes what the codec knows of a message.
func cTable(b *strings.Builder, m *protogen.Message) {
	name := nameOf(m)
	if len(m.Fields) == 0 {
		fmt.Fprintf(b, "\nstatic const wn_message wn_%s_message = {0, 0, sizeof(wn_%s)};\n", name, name)
		return
	}
	fmt.Fprintf(b, "\nstatic const wn_field wn_%s_fields[] = {\n", name)
	for _, f := range inOrder(m) {
		kind, sub := cTypes[f.Desc.Kind()].kind, "0"
		if f.Message != nil {
			kind, sub = "WN_MESSAGE", "&wn_"+nameOf(f.Message)+"_message"
		}
		label, beside := cLabel(m, f)
		if beside != "" {
			beside = fmt.Sprintf("offsetof(wn_%s, %s)", name, beside)
		} else {
			beside = "0"
		}
		fmt.Fprintf(b, "  {%d, %s, %s, offsetof(wn_%s, %s), %s, %s},\n", f.Desc.Number(), kind, label, name, cName(f), beside, sub)
	}
	fmt.Fprintf(b, "};\nstatic const wn_message wn_%s_message = {wn_%s_fields, %d, sizeof(wn_%s)};\n", name, name, len(m.Fields), name)
}

// cLabel returns how often a field occurs, and the member that says so.
func cLabel(m *protogen.Message, f *protogen.Field) (label, beside string) {
	switch {
	case m.Desc.IsMapEntry():
		return "WN_ALWAYS", ""
	case f.Desc.IsMap() || f.Desc.IsList():
		return "WN_MANY", string(f.Desc.Name()) + "_count"
	case isChoice(f):
		return "WN_CASE", string(f.Oneof.Desc.Name()) + "_case"
	case f.Desc.HasOptionalKeyword():
		return "WN_OPTIONAL", "has_" + string(f.Desc.Name())
	default:
		return "WN_ONE", ""
	}
}

func cOperation(b *strings.Builder, o operation) {
	b.WriteByte('\n')
	cComment(b, "", comment(o.doc))
	fmt.Fprintf(b, "#define WN_%s(request, response) \\\n  WN_OPERATION(%s, wn_%sRequest, wn_%sResponse, request, response)\n",
		strings.ToUpper(o.name), o.name, o.message, o.message)
}

func cCapability(b *strings.Builder, c capability) {
	var imported, taken, passed []string
	switch {
	case c.request != "":
		imported, passed = []string{"const void *from", "uint32_t length"}, []string{"wn_out.data", "wn_out.size"}
		taken = append(taken, "const wn_"+c.request+" *request")
	case c.stream:
		imported, taken, passed = []string{"uint32_t stream"}, []string{"uint32_t stream"}, []string{"stream"}
	default:
		imported = []string{"void"}
	}
	table, response := "0", "0"
	if c.response != "" {
		table, response = "&wn_"+c.response+"_message", "response"
		taken = append(taken, "wn_"+c.response+" *response")
	}
	fmt.Fprintf(b, "\nWN_IMPORT(%q, %q) uint64_t wn_import_%s(%s);\n", c.module(), c.function, c.name(), strings.Join(imported, ", "))
	cComment(b, "", []string{c.doc})
	fmt.Fprintf(b, "WN_FUNCTION const wn_Error *wn_%s(%s) {\n", c.name(), strings.Join(taken, ", "))
	if c.request != "" {
		fmt.Fprintf(b, "  wn_string wn_out;\n  if (!wn_encode(&wn_%s_message, request, &wn_out)) return wn_no_memory();\n", c.request)
	}
	fmt.Fprintf(b, "  return wn_answered(wn_import_%s(%s), %s, %s);\n}\n", c.name(), strings.Join(passed, ", "), table, response)
}

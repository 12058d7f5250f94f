package acl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ruled are the rights of rules.
func ruled(t *testing.T, texts ...string) *Rights {
	t.Helper()
	var all []*Rules
	for _, text := range texts {
		r, err := ParseRules(text)
		require.NoError(t, err)
		all = append(all, r)
	}
	return RightsOf(Anyone, all...)
}

func TestRulesThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		``:                                         "invalid policy: it has no rule",
		`namespace "a" {`:                          "failed to parse ACL Policy: rules:1,",
		`namespace { policy = "read" }`:            "Missing name for namespace",
		`namespace "a" { polcy = "read" }`:         `An argument named "polcy" is not expected here`,
		`namespce "a" { policy = "read" }`:         "Unsupported block type",
		`namespace "a_b" { policy = "read" }`:      `invalid name: namespace "a_b"`,
		`namespace "a" { policy = "list" }`:        `invalid policy "list" of namespace "a"`,
		`namespace "a" { capabilities = ["fly"] }`: `invalid capability "fly" of namespace "a"`,
		"namespace \"a\" {\n variables {\n}\n}":    "no variable paths",
		"namespace \"a\" {\n variables {\n path \"/x\" { capabilities = [\"read\"] }\n}\n}": `invalid variable path "/x"`,
		"namespace \"a\" {\n variables {\n path \"x\" { capabilities = [\"fly\"] }\n}\n}":   `invalid capability "fly"`,
		`node { policy = "all" }`:                                 `invalid policy "all" of node`,
		`node { capabilities = ["x"] }`:                           `invalid capability "x" of node`,
		`operator { capabilities = ["x"] }`:                       `invalid capability "x" of operator`,
		`node_pool "a b" { policy = "read" }`:                     "invalid name: node_pool a b",
		`host_volume "a" { capabilities = ["fly"] }`:              `invalid capability "fly" of host_volume a`,
		"node { policy = \"read\" }\nnode { policy = \"write\" }": "Duplicate node block",
		`node { policy = 1e9999999 }`:                             "The number is too large",
		`{"node": {"policy": 1e9999999}}`:                         "A policy has no numbers",
		strings.Repeat("(", 1000):                                 "failed to parse ACL Policy: rules:1,",
		strings.Repeat("#", maxRulesBytes+1):                      "its rules have 65537 bytes, at most 65536 are possible",
	} {
		_, err := ParseRules(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestWhatRulesAllowInNamespaces(t *testing.T) {
	r := ruled(t, `
namespace "*" { policy = "read" }
namespace "team-*" { policy = "write" }
namespace "team-b*" { capabilities = ["list-jobs"] }
namespace "team-secret" { policy = "deny" }
namespace "ops" { capabilities = ["deny", "submit-job"] }
`, `
namespace "ops" { policy = "write" }
namespace "team-*" { capabilities = ["purge-job"] }
`)
	for _, c := range []struct {
		namespace, capability string
		allowed               bool
	}{
		{"default", "read-job", true}, {"default", "submit-job", false},
		{"team-a", "submit-job", true}, {"team-a", "purge-job", true}, {"team-a", "alloc-node-exec", false},
		{"team-bees", "list-jobs", true}, {"team-bees", "submit-job", false}, {"team-bees", "read-job", false},
		{"team-secret", "read-job", false}, {"team-secret", "list-jobs", false},
		{"ops", "submit-job", false}, {"ops", "list-jobs", false},
		{"*", "submit-job", true}, {"*", "alloc-node-exec", false},
	} {
		require.Equal(t, c.allowed, r.Namespace(c.namespace, c.capability), "%s in %s", c.capability, c.namespace)
	}
	require.True(t, r.Namespace("default", "submit-job", "read-job"), "one of them does")
	require.True(t, r.SeesNamespace("team-bees"))
	require.False(t, r.SeesNamespace("team-secret"))
	only := ruled(t, `namespace "a" { policy = "scale" }`)
	require.False(t, only.SeesNamespace("b"))
	require.True(t, only.Namespace("a", "scale-job"))
	require.False(t, only.Namespace("a", "submit-job"))
	require.False(t, only.Node(false) || only.Agent(false) || only.Operator(false) || only.Plugin() || only.Pool("x", "read") || only.OperatorCan("keyring-read"))
	require.True(t, ruled(t, `{"namespace": {"a": {"policy": "read"}}}`).Namespace("a", "read-job"), "JSON")
}

func TestWhatRulesAllowOfVariables(t *testing.T) {
	r := ruled(t, `
namespace "a*" {
  variables {
    path "app/*" { capabilities = ["read"] }
    path "app/secret/*" { capabilities = ["deny", "read"] }
    path "app/mine" { capabilities = ["write", "destroy"] }
  }
}`)
	for _, c := range []struct {
		namespace, path, operation string
		allowed                    bool
	}{
		{"a", "app/x", "read", true}, {"a", "app/x", "list", true}, {"a", "app/x", "write", false}, {"ab", "app/x", "read", true},
		{"b", "app/x", "read", false}, {"a", "other", "read", false}, {"a", "app/secret/x", "read", false},
		{"a", "app/mine", "write", true}, {"a", "app/mine", "destroy", true}, {"a", "app/mine", "read", false},
	} {
		require.Equal(t, c.allowed, r.Variable(c.namespace, c.path, c.operation), "%s %s in %s", c.operation, c.path, c.namespace)
	}
	require.False(t, r.SeesNamespace("a"), "variables alone show no namespace, as with Nomad")
}

func TestWhatOtherRulesAllow(t *testing.T) {
	r := ruled(t, `
node { policy = "write" }
agent { policy = "read" }
operator {
  policy       = "read"
  capabilities = ["keyring-rotate"]
}
plugin { policy = "list" }
quota { policy = "read" }
node_pool "gpu*" { policy = "write" }
host_volume "data" { policy = "read" }
host_volume "logs*" { capabilities = ["mount-readwrite"] }
`, `agent { policy = "deny" }`)
	require.True(t, r.Node(true) && r.Node(false) && r.Operator(false) && r.Plugin())
	require.False(t, r.Operator(true))
	require.False(t, r.Agent(false), "to deny goes before all else")
	require.True(t, r.OperatorCan("keyring-rotate") && r.OperatorCan("keyring-read"))
	require.False(t, r.OperatorCan("snapshot-save"))
	require.True(t, r.Pool("gpu-1", "delete"))
	require.False(t, r.Pool("default", "read"))
	require.True(t, r.HostVolume("data", false) && r.HostVolume("logs1", true))
	require.False(t, r.HostVolume("data", true) || r.HostVolume("other", false))
}

func TestWhatLevelsIncludeWithoutRules(t *testing.T) {
	var none *Rights
	require.False(t, none.Namespace("a", "read-job") || none.SeesNamespace("a") || none.Variable("a", "b", "read") || none.SomeVariable("list") ||
		none.Node(false) || none.Agent(false) || none.Operator(false) || none.OperatorCan("x") || none.Pool("a", "read") || none.Plugin() || none.HostVolume("a", false))
	all := Everything()
	require.True(t, all.Namespace("a", "submit-job") && all.SeesNamespace("a") && all.Variable("a", "b", "destroy") && all.SomeVariable("list") &&
		all.Node(true) && all.Agent(true) && all.Operator(true) && all.OperatorCan("x") && all.Pool("a", "delete") && all.Plugin() && all.HostVolume("a", true))
	reader := RightsOf(Reader)
	require.True(t, reader.Namespace("a", "read-logs") && reader.SeesNamespace("a") && reader.Node(false) && reader.Plugin() && reader.Pool("a", "read"))
	require.False(t, reader.Namespace("a", "submit-job") || reader.Variable("a", "b", "read") || reader.Node(true) || reader.Pool("a", "write"))
}

func TestPatternsOfNames(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		matches       bool
	}{
		{"*", "", true}, {"*", "a", true}, {"a*", "a", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "acb", false}, {"a**b", "ab", true}, {"ab*b", "ab", false}, {"a", "a", true}, {"a", "ab", false},
	} {
		require.Equal(t, c.matches, matches(c.pattern, c.name), "%q of %q", c.name, c.pattern)
	}
}

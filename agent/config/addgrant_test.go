package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
)

func TestAGrantIsAddedToAFile(t *testing.T) {
	const commented = `# Mine.
plugin "x" { # the driver
  config {
    greeting = "hi"
  }
  grant {
    process {
      commands  = ["/bin/sh"] # a shell
      isolation = "none"
    }
  }
}
`
	for name, c := range map[string]struct{ file, grant, want string }{
		"an empty file":  {"", `plugin "x" { grant { kv { enabled = true } } }`, "plugin \"x\" {\n  grant {\n    kv {\n      enabled = true\n    }\n  }\n}\n"},
		"another plugin": {"plugin \"y\" {\n}\n", `plugin "x" { grant { kv { enabled = true } } }`, "plugin \"y\" {\n}\n\nplugin \"x\" {\n  grant {\n    kv {\n      enabled = true\n    }\n  }\n}\n"},
		"a list": {commented, `plugin "x" { grant { process { commands = ["/bin/true"] } } }`, `# Mine.
plugin "x" { # the driver
  config {
    greeting = "hi"
  }
  grant {
    process {
      commands  = ["/bin/sh", "/bin/true"] # a shell
      isolation = "none"
    }
  }
}
`},
		"a list of several lines": {
			"plugin \"x\" {\n  grant {\n    process {\n      commands = [\n        \"/bin/sh\", # a shell\n      ]\n    }\n  }\n}\n",
			`plugin "x" { grant { process { commands = ["/bin/true"] } } }`,
			"plugin \"x\" {\n  grant {\n    process {\n      commands = [\n        \"/bin/sh\", \"/bin/true\" # a shell\n      ]\n    }\n  }\n}\n",
		},
		"an empty list": {
			"plugin \"x\" {\n  grant {\n    process {\n      commands = []\n    }\n  }\n}\n",
			`plugin "x" { grant { process { commands = ["/bin/true"] } } }`,
			"plugin \"x\" {\n  grant {\n    process {\n      commands = [\"/bin/true\"]\n    }\n  }\n}\n",
		},
		"what is no list": {
			"plugin \"x\" {\n  grant {\n    kv {\n      enabled = false\n    }\n  }\n}\n",
			`plugin "x" { grant { kv { enabled = true } } }`,
			"plugin \"x\" {\n  grant {\n    kv {\n      enabled = true\n    }\n  }\n}\n",
		},
		"a helper beside another of the same program": {
			"plugin \"x\" {\n  grant {\n    process {\n      helper \"/bin/a\" {\n        args = [\"1\"]\n      }\n    }\n  }\n}\n",
			`plugin "x" { grant { process { helper "/bin/a" { args = ["2"] } } } }`,
			"plugin \"x\" {\n  grant {\n    process {\n      helper \"/bin/a\" {\n        args = [\"1\"]\n      }\n      helper \"/bin/a\" {\n        args = [\"2\"]\n      }\n    }\n  }\n}\n",
		},
		"a request beside others of the same endpoint": {
			"plugin \"x\" {\n  grant {\n    http {\n      endpoint \"http://a\" {\n        methods = [\"POST\"]\n        paths   = [\"/a\"]\n      }\n    }\n  }\n}\n",
			`plugin "x" { grant { http { endpoint "http://a" { paths = ["/b"] } } } }`,
			"plugin \"x\" {\n  grant {\n    http {\n      endpoint \"http://a\" {\n        methods = [\"POST\"]\n        paths   = [\"/a\"]\n      }\n      endpoint \"http://a\" {\n        paths = [\"/b\"]\n      }\n    }\n  }\n}\n",
		},
		"a file that is not formatted": {
			"plugin \"x\" {\ngrant {\nprocess {\ncommands=[\"/bin/sh\"]\n}\n}\n}\n",
			`plugin "x" { grant { process { commands = ["/bin/true"] } } }`,
			"plugin \"x\" {\n  grant {\n    process {\n      commands = [\"/bin/sh\", \"/bin/true\"]\n    }\n  }\n}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.AddGrant("agent.hcl", []byte(c.file), "x", c.grant)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			file := filepath.Join(t.TempDir(), "agent.hcl")
			require.NoError(t, os.WriteFile(file, got, 0o600))
			loaded := config.Default()
			require.NoError(t, loaded.Load(file), "it can be read")
		})
	}
}

// TestAGrantIsAddedOnlyAsItStands is about what a plugin could have written into one.
func TestAGrantIsAddedOnlyAsItStands(t *testing.T) {
	for grant, want := range map[string]string{
		`plugin "x" { grant { process { commands = ["/bin/*"] } } }`:                             "the grant is one to complete: commands",
		`plugin "x" { grant { process { commands = ["/bin/%{ if true }sh%{ endif }"] } } }`:      "the grant is one to complete: commands",
		`plugin "x" { grant { process { commands = ["/bin/${"sh"}"] } } }`:                       "the grant is one to complete: commands",
		`plugin "x" { grant { process { paths = ["rx:/…"] } } }`:                                 "the grant is one to complete: paths",
		`plugin "x" { grant { process { helper "/bin/*" { args = ["1"] } } } }`:                  `the grant is one to complete: helper "/bin/*"`,
		`plugin "x" { grant { net { addresses = ["HOST:PORT"] } } }, naming what it connects to`: "the grant is one to complete: plugin",
		`plugin "y" { grant { kv { enabled = true } } }`:                                         `the grant is of "y", and "x" asks for it`,
		`plugin { grant { kv { enabled = true } } }`:                                             `the grant is of "", and "x" asks for it`,
		`acl { enabled = false }`:         "acl is no grant of a plugin",
		`enable_debug = true`:             "enable_debug is no grant of a plugin",
		`plugin "x" { config { a = 1 } }`: "plugin is no grant of a plugin",
		"plugin \"x\" { grant { kv { enabled = true } } }\nplugin \"y\" { grant { kv { enabled = true } } }\n": `the grant is of "y", and "x" asks for it`,
		"plugin \"x\" { grant { kv { enabled = true } } }\nplugin_dir = \"/\"":                                 "plugin_dir is no grant of a plugin",
	} {
		_, err := config.AddGrant("agent.hcl", nil, "x", grant)
		require.ErrorContains(t, err, want, grant)
	}
	for _, file := range []string{"plugin \"x\" {", "plugin \"x\" {\n  grant {\n    process {\n      commands = concat([], [])\n    }\n  }\n}\n"} {
		_, err := config.AddGrant("agent.hcl", []byte(file), "x", `plugin "x" { grant { process { commands = ["/bin/true"] } } }`)
		require.ErrorContains(t, err, "it is to be changed by hand", file)
	}
}

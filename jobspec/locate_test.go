package jobspec

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
)

const located = `variable "v" { default = "x" }
job "j" {
  constraint {
    attribute = "a"
  }
  constraint {
    operator = "nope"
  }
  group "web: a" {
    count = -3
    network {
      port "http" { to = -2 }
      dynamic "port" {
        for_each = ["x"]
        labels   = [port.value]
        content {
          static = 0
        }
      }
    }
    service { name = "one" }
    service {
      name = "two"
      check { interval = "x" }
    }
    affinity { weight = 0 }
    affinity { weight = 1000 }
    task "app" {
      driver = "d"
      config {
        comand = "sh"
        args   = ["a", ["b"]]
        mount {
          source = "/a"
        }
        mount {
          sauce = "/b"
        }
        label "x" {
          size = 1
        }
        limits = { "of.all" = { most = [1] } }
      }
      env = {
        A = "1"
      }
    }
  }
  task "alone" {
    driver = ""
  }
}
`

func TestAFaultIsWhereTheLastOfItsNamesIs(t *testing.T) {
	task := `group "web: a": task "app": `
	for fault, want := range map[string]string{
		`Missing job name`: `2:job "j"`,
		`Job priority must be between [1, 100]: it is 3000`: `2:job "j"`,
		``: `2:job "j"`,
		`constraint 2: Unknown constraint type "nope"`:                      `6:constraint`,
		`constraint 3: No LTarget`:                                          `2:job "j"`,
		`constraint: one of two`:                                            `2:job "j"`,
		`group "web: a": count: can't be negative`:                          `10:count = -3`,
		`group "web: a": count cannot be a word of a sentence`:              `9:group "web: a"`,
		`group "web: a": count (and in another block): no`:                  `10:count = -3`,
		`group "web: a": count, update: no`:                                 `10:count = -3`,
		`group "none": count: no`:                                           `2:job "j"`,
		`group "web: a": network: port "http": to: -2 is not a port`:        `12:to = -2`,
		`group "web: a": network: port "http": static: 0 is not a port`:     `12:port "http"`,
		`group "web: a": network: port "x": static: 0 is not a port`:        `17:static = 0`,
		`group "web: a": network: port "x": to: 0 is not a port`:            `13:dynamic "port"`,
		`group "web: a": service "two": check: interval: no`:                `24:interval = "x"`,
		`group "web: a": service "three": check: no`:                        `9:group "web: a"`,
		`group "web: a": affinity 2: weight: no`:                            `27:weight = 1000`,
		`group "web: a": affinity: weight: of which`:                        `9:group "web: a"`,
		task + `driver: Missing`:                                            `29:driver = "d"`,
		task + `resources: cpu: minimum`:                                    `28:task "app"`,
		task + `config.comand: unknown field, did you mean "command"?`:      `31:comand = "sh"`,
		task + `config.command: missing`:                                    `30:config`,
		task + `config.args[1]: a list, want a string`:                      `32:["b"]`,
		task + `config.args[2]: missing`:                                    `32:args   = ["a", ["b"]]`,
		task + `config.mount[1].sauce: unknown field`:                       `37:sauce = "/b"`,
		task + `config.mount[1].source: missing`:                            `36:mount`,
		task + `config.label[0].x[0].size: no`:                              `40:size = 1`,
		task + `config.limits[0]["of.all"].most[0]: no`:                     `42:1`,
		task + `env.A: no`:                                                  `45:A = "1"`,
		`group "alone": count: no`:                                          `49:task "alone"`,
		`group "alone": task "alone": driver: Missing task driver`:          `50:driver = ""`,
		`group "alone": task "app": driver: Missing task driver`:            `49:task "alone"`,
		`group "web: a: task "app": an unfinished name`:                     `2:job "j"`,
		task + `config.args[99999999999999999999]: a number of many digits`: `32:args   = ["a", ["b"]]`,
	} {
		f := Locate("job.hcl", []byte(located), []string{fault})[0]
		require.Equal(t, "job.hcl", f.At.Filename)
		require.Equal(t, want, strings.TrimPrefix(strings.Split(f.Line, ",")[0], "job.hcl:")+":"+string(f.At.SliceBytes([]byte(located))), fault)
		require.True(t, strings.HasSuffix(f.Line, ": "+fault), f.Line)
	}
}

func TestAFaultOfWhatIsNoJobFileHasNoPlace(t *testing.T) {
	for _, content := range []string{"", "{\"Job\": {}}", "group \"g\" {}", "job {"} {
		require.Equal(t, []Fault{{Line: "job.hcl: count: no", At: hcl.Range{}}}, Locate("job.hcl", []byte(content), []string{"count: no"}), content)
	}
}

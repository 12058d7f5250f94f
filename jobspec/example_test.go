package jobspec_test

import (
	"fmt"

	"github.com/wasmnode/wasmnode/jobspec"
)

func ExampleParse() {
	content := `
variable "greeting" {
  default = "hello"
}

job "greet" {
  type = "batch"

  group "greet" {
    count = 2

    task "greet" {
      driver = "wasi"

      config {
        module = "local/greet.wasm"
        args   = ["${var.greeting} from ${node.unique.name}"]
      }
    }
  }
}
`
	job, err := jobspec.Parse(jobspec.Options{
		Path:    "greet.nomad.hcl",
		Content: []byte(content),
		Vars:    map[string]string{"greeting": "good day"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	group := job.TaskGroups[0]
	fmt.Println(*job.ID, *group.Count, group.Tasks[0].Config["args"])

	_, err = jobspec.Parse(jobspec.Options{Path: "greet.nomad.hcl", Content: []byte("job \"greet\" {\n  priorty = 70\n}\n")})
	fmt.Println(err)

	// Output:
	// greet 2 [good day from ${node.unique.name}]
	// greet.nomad.hcl:2,3: Unsupported argument; an argument named "priorty" is not expected here; did you mean "priority"?
}

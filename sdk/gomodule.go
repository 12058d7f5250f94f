package sdk

import (
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/mod/modfile"

	sdkgo "github.com/wasmnode/wasmnode/sdk/go"
)

// goModule returns what the module of a plugin in Go requires because the SDK does, as a part of
// a go.mod, and its go.sum.
func goModule() (requires string, sum []byte, err error) {
	text, err := fs.ReadFile(sdkgo.Source, "go.mod")
	if err != nil {
		return "", nil, err
	}
	module, err := modfile.Parse("sdk/go/go.mod", text, nil)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	b.WriteString("require (\n")
	for _, r := range module.Require {
		if !strings.HasPrefix(r.Mod.Path, "github.com/wasmnode/") { // these are named already
			fmt.Fprintf(&b, "\t%s %s // indirect\n", r.Mod.Path, r.Mod.Version)
		}
	}
	b.WriteString(")\n")
	sum, err = fs.ReadFile(sdkgo.Source, "go.sum")
	return b.String(), sum, err
}

package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

type uiCommand struct{ meta }

// Synopsis implements [subcommand].
func (*uiCommand) Synopsis() string { return "Open the node's page in a browser" }

// Help implements [subcommand].
func (*uiCommand) Help() string {
	return `Usage: wasmnode ui [options] [ID]

  Opens the node's page in a browser, or that of a job, an allocation or the node whose ID
  is, or begins with, a text. Where no browser can be opened its address is printed.

Options:

  -show-url       Print the address, and open nothing.
  -authenticate   Refused: there are no one-time tokens. The page asks for the token itself.` + commonOptions
}

// Run implements [subcommand].
func (c *uiCommand) Run(args []string) int {
	f := c.flags("ui")
	show, authenticate := f.Bool("show-url", false, ""), f.Bool("authenticate", false, "")
	client := c.connect(f, args, 0, 1, c.Help())
	if client == nil {
		return 1
	}
	if *authenticate {
		return c.fail(f, errors.New("-authenticate: there are no one-time tokens: sign in on the page with the token itself"))
	}
	if strings.HasPrefix(f.address, "unix:") {
		return c.fail(f, fmt.Errorf("the node is asked on a socket, which browsers cannot open. Where your browser is: ssh -N -L 4646:%s %s, and open %s/ui/ there; or give the node an address with bind_addr", strings.TrimPrefix(f.address, "unix://"), hostName(), defaultAddress))
	}
	page, err := pageOf(client, f.Arg(0))
	if err != nil {
		return c.fail(f, err)
	}
	switch opener, err := exec.LookPath("xdg-open"); {
	case *f.json:
		return c.printJSON(map[string]string{"URL": page})
	case *show:
		c.ui.Output("URL for web UI: " + page)
	case err != nil || os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		c.ui.Output("No browser can be opened from here. URL for web UI: " + page)
	default:
		c.ui.Output(fmt.Sprintf("Opening URL %q", page))
		if out, err := exec.Command(opener, page).CombinedOutput(); err != nil {
			return c.fail(f, fmt.Errorf("opening a browser: %w: %s", err, strings.TrimSpace(string(out))))
		}
	}
	return 0
}

// hostName is what others may know this machine by.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "NODE"
	}
	return name
}

// pageOf is the address of the page of what has an ID; empty: of the node's first page.
func pageOf(client *nomad.Client, id string) (string, error) {
	address, err := url.Parse(client.Address())
	if err != nil {
		return "", err
	}
	base := address.Scheme + "://" + address.Host + "/ui/"
	if id == "" {
		return base, nil
	}
	kind, err := kindOf(client, id)
	if err != nil {
		return "", err
	}
	switch kind {
	case contexts.Jobs:
		job, err := findJob(client, id)
		if err != nil {
			return "", err
		}
		return base + "jobs/" + url.PathEscape(*job.ID) + "@" + url.PathEscape(*job.Namespace), nil
	case contexts.Allocs:
		alloc, err := findAllocation(client, id)
		if err != nil {
			return "", err
		}
		return base + "allocations/" + alloc.ID, nil
	case contexts.Nodes:
		node, err := findNode(client, id)
		if err != nil {
			return "", err
		}
		return base + "clients/" + node.ID, nil
	}
	return "", fmt.Errorf("%q begins an ID of %s, which have no page of their own: jobs, allocations and the node have", id, kind)
}

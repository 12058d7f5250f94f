package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

type operatorAPICommand struct{ meta }

// Synopsis implements [subcommand].
func (*operatorAPICommand) Synopsis() string { return "Send a request to the API" }

// Help implements [subcommand].
func (*operatorAPICommand) Help() string {
	return `Usage: wasmnode operator api [options] PATH

  Sends a request to the API and prints the answer. PATH is one such as /v1/jobs, or has
  an address in front of it. What is piped in is the body. The exit code is 0 for any
  answer, also one that says no.

Options:

  -X=METHOD      GET, or POST with a body.
  -H=HEADER      One more header, "NAME: VALUE"; may be given several times.
  -filter=EXPR   Only what it is true of.
  -dryrun        Print the command of curl that does the same, and send nothing.` + commonOptions
}

// Run implements [subcommand].
func (c *operatorAPICommand) Run(args []string) int {
	f := c.flags("operator api")
	headers := http.Header{}
	f.Func("H", "", func(text string) error {
		name, value, is := strings.Cut(text, ":")
		if !is {
			return fmt.Errorf("%q is not of the form NAME: VALUE", text)
		}
		headers.Add(name, strings.TrimSpace(value))
		return nil
	})
	method, filter, dry := f.String("X", "", ""), f.String("filter", "", ""), f.Bool("dryrun", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	body := piped(os.Stdin)
	if *method == "" {
		*method = http.MethodGet
		if body != nil {
			*method = http.MethodPost
		}
	}
	target, err := target(f, f.Arg(0), *filter)
	if err != nil {
		return c.fail(f, err)
	}
	req, err := http.NewRequest(*method, target.String(), body)
	if err != nil {
		return c.fail(f, err)
	}
	if f.token != "" {
		req.Header.Set("X-Nomad-Token", f.token)
	}
	for name, values := range headers {
		req.Header[name] = values
	}
	if *dry {
		c.ui.Output(curl(req))
		return 0
	}
	return c.send(f, req)
}

// send prints the answer to a request as it comes. With -verbose it tells of both, too.
func (c *operatorAPICommand) send(f *flags, req *http.Request) int {
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	resp, err := client.Raw().Do(req)
	if err != nil {
		return c.fail(f, err)
	}
	defer resp.Body.Close()
	if *f.verbose {
		c.ui.Error(fmt.Sprintf("> %s %s", req.Method, req.URL))
		c.ui.Error("< " + resp.Status)
		for name := range resp.Header {
			c.ui.Error("< " + name + ": " + resp.Header.Get(name))
		}
	}
	if _, err := io.Copy(c.ui.out, resp.Body); err != nil {
		return c.fail(f, err)
	}
	return 0
}

// target is the URL of a path. An address in front of it is the node's from there on.
func target(f *flags, path, filter string) (*url.URL, error) {
	if !strings.HasPrefix(path, "/") {
		if !strings.Contains(path, "://") {
			path = "http://" + path
		}
		u, err := url.Parse(path)
		if err != nil {
			return nil, err
		}
		f.address, path = u.Scheme+"://"+u.Host, u.RequestURI()
	}
	base := f.address
	if strings.HasPrefix(base, "unix://") {
		base = "http://127.0.0.1" // the socket is dialled whatever it says
	} else if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base + path)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	for name, value := range map[string]string{"namespace": f.namespace, "region": f.region, "filter": filter} {
		if value != "" && !q.Has(name) {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// piped is what is piped into the command; nil: nothing is.
func piped(in *os.File) io.Reader {
	info, err := in.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return nil
	}
	body := bufio.NewReader(in)
	if _, err := body.Peek(1); err != nil {
		return nil
	}
	return body
}

// curl is a request as a command. The token of the environment stays there.
func curl(req *http.Request) string {
	words := []string{"curl", "-X", req.Method}
	if req.Body != nil {
		words = append(words, "--data-binary", "@-")
	}
	for name, values := range req.Header {
		for _, value := range values {
			if name == "X-Nomad-Token" && value == os.Getenv("NOMAD_TOKEN") {
				words = append(words, "-H", `"X-Nomad-Token: ${NOMAD_TOKEN}"`)
				continue
			}
			words = append(words, "-H", shellWord(name+": "+value))
		}
	}
	return strings.Join(append(words, shellWord(req.URL.String())), " ")
}

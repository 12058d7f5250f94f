package main

import (
	"errors"
	"fmt"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

type volumeCreateCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeCreateCommand) Synopsis() string { return "Make a host volume" }

// Help implements [subcommand].
func (*volumeCreateCommand) Help() string {
	return `Usage: wasmnode volume create [options] FILE

  Has a plugin make the volume of a file ("-" reads standard input), which is HCL or
  JSON. "volume init" writes an example. Without -detach, returns when jobs can have it.

Options:

  -detach            Do not wait until the volume is ready.
  -id=ID             Change the volume whose ID or name that is, or begins so.
  -policy-override   Refused: there are no Sentinel policies.` + commonOptions
}

// volumeFlags are those of the commands that make volumes.
type volumeFlags struct {
	id       string
	override bool
}

func (v *volumeFlags) bind(f *flags) {
	f.StringVar(&v.id, "id", "", "")
	f.BoolVar(&v.override, "policy-override", false, "")
}

// defined returns a client, and the volume that the command line names; nil: what is wrong was
// printed.
func (m meta) defined(f *flags, v *volumeFlags) (*nomad.Client, *nomad.HostVolume) {
	if v.override {
		m.fail(f, errors.New("-policy-override: there are no Sentinel policies"))
		return nil, nil
	}
	content, err := readFile(f.Arg(0))
	var volume *nomad.HostVolume
	if err == nil {
		volume, err = decodeVolume(f.Arg(0), content)
	}
	var client *nomad.Client
	if err == nil {
		client, err = m.client(f)
	}
	if err == nil && v.id != "" {
		var old *nomad.HostVolumeStub
		namespace := volume.Namespace
		if namespace == "" {
			namespace = f.namespace
		}
		if old, err = findVolume(client, v.id, namespace); err == nil {
			volume.ID = old.ID
		}
	}
	if err != nil {
		m.fail(f, err)
		return nil, nil
	}
	return client, volume
}

// Run implements [subcommand].
func (c *volumeCreateCommand) Run(args []string) int {
	f := c.flags("volume create")
	var v volumeFlags
	v.bind(f)
	detach := f.Bool("detach", false, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	client, volume := c.defined(f, &v)
	if client == nil {
		return 1
	}
	answer, meta, err := client.HostVolumes().Create(&nomad.HostVolumeCreateRequest{Volume: volume}, nil)
	if err != nil {
		return c.fail(f, err)
	}
	made := answer.Volume
	said := fmt.Sprintf("Created host volume %s with ID %s", harmless(made.Name), made.ID)
	switch {
	case *f.json:
		return c.printJSON(made)
	case *detach || made.State == nomad.HostVolumeStateReady:
		c.ui.Output(said)
		return 0
	}
	c.ui.Output("==> " + said)
	return c.awaitVolume(f, client, made, meta.LastIndex)
}

// awaitVolume returns when a volume is ready, or cannot be.
func (m meta) awaitVolume(f *flags, client *nomad.Client, v *nomad.HostVolume, index uint64) int {
	say := func(format string, args ...any) {
		m.ui.Output(fmt.Sprintf("==> %s: ", time.Now().Format(time.RFC3339)) + fmt.Sprintf(format, args...))
	}
	say("Monitoring volume %q...", f.short(v.ID))
	for {
		now, meta, err := client.HostVolumes().Get(v.ID, &nomad.QueryOptions{Namespace: v.Namespace, WaitIndex: index})
		switch {
		case err != nil:
			return m.fail(f, err)
		case now.State == nomad.HostVolumeStateReady:
			say("Volume %q ready", harmless(now.Name))
			return 0
		case now.State == nomad.HostVolumeStateUnavailable:
			return m.fail(f, fmt.Errorf("volume %s is unavailable: the agent's log tells why", v.ID))
		}
		index = meta.LastIndex
	}
}

type volumeRegisterCommand struct{ meta }

// Synopsis implements [subcommand].
func (*volumeRegisterCommand) Synopsis() string {
	return "Make a directory that is there a host volume"
}

// Help implements [subcommand].
func (*volumeRegisterCommand) Help() string {
	return `Usage: wasmnode volume register [options] FILE

  Makes a directory that is there a volume, by a file ("-" reads standard input) in which
  host_path and node_id name it. It is below client.host_volumes_dir, and stays when the
  volume is deleted.

Options:

  -id=ID             Change the volume whose ID or name that is, or begins so.
  -policy-override   Refused: there are no Sentinel policies.` + commonOptions
}

// Run implements [subcommand].
func (c *volumeRegisterCommand) Run(args []string) int {
	f := c.flags("volume register")
	var v volumeFlags
	v.bind(f)
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	client, volume := c.defined(f, &v)
	if client == nil {
		return 1
	}
	answer, _, err := client.HostVolumes().Register(&nomad.HostVolumeRegisterRequest{Volume: volume}, nil)
	if err != nil {
		return c.fail(f, err)
	}
	if *f.json {
		return c.printJSON(answer.Volume)
	}
	c.ui.Output(fmt.Sprintf("Registered host volume %s with ID %s", harmless(answer.Volume.Name), answer.Volume.ID))
	return 0
}

package network

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/wasmnode/wasmnode/structs"
)

// free returns an error for a port that a process of the node listens on: once it is mapped, its
// clients would reach the allocation in place of that.
func free(ports []structs.AllocatedPort) error {
	for _, p := range ports {
		at := net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value))
		if err := tryTCP(at); err != nil {
			return taken(p, "tcp", err)
		}
		if err := tryUDP(at); err != nil {
			return taken(p, "udp", err)
		}
	}
	return nil
}

func taken(p structs.AllocatedPort, protocol string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %q: a process of the node listens on %s/%s", p.Label, net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value)), protocol)
	}
	return fmt.Errorf("port %q: %w", p.Label, err)
}

func tryTCP(at string) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	return l.Close()
}

func tryUDP(at string) error {
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	return c.Close()
}

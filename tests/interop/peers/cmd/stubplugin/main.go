// Command stubplugin is a plugin on Go's stub that writes down what it hears, a line of JSON for each thing, and obeys
// a line of its standard input at a time:
//
//	update ID…  asks the runtime to update these containers
//	evict ID    asks the runtime to evict a container
//	stop        leaves
//
// It may be launched by the runtime: then it has no standard input, and its connection and its name are given.
//
// It is built with several versions of the stub. What a version is too old for is told by build tags: see the build script.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("stubplugin: ")
	// The stub tells much, and that is not what tests are read for.
	logrus.SetOutput(io.Discard)
	socket := flag.String("socket", "", "socket of the runtime")
	index := flag.String("index", "10", "index of the plugin, two digits")
	p := newPlugin(flag.CommandLine)
	flag.Parse()
	if err := p.run(*socket, *index); err != nil {
		log.Fatal(err)
	}
}

// run is over when the connection is.
func (p *plugin) run(socket, index string) error {
	options, err := p.options()
	if err != nil {
		return err
	}
	// Without this, older stubs end the process themselves.
	options = append(options, stub.WithOnClose(p.closed))
	// A runtime that launches it says who it is, and gives it a connection.
	if os.Getenv("NRI_PLUGIN_SOCKET") == "" {
		options = append(options, stub.WithPluginName("stub"), stub.WithPluginIdx(index), stub.WithSocketPath(socket))
	}
	handlers, err := p.handlers()
	if err != nil {
		return err
	}
	if p.stub, err = stub.New(handlers, options...); err != nil {
		return err
	}
	go func() {
		if err := p.obey(os.Stdin); err != nil {
			log.Fatal(err)
		}
	}()
	// A stub that stops closes its listener before its server, so either may tell that it is over.
	err = p.stub.Run(context.Background())
	if err != nil && !errors.Is(err, ttrpc.ErrServerClosed) && !errors.Is(err, io.EOF) {
		return err
	}
	<-p.gone
	return nil
}

// obey is over when nobody has any more commands.
func (p *plugin) obey(commands io.Reader) error {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) > 1 && words[0] == "update":
			p.update(words[1:])
		case len(words) == 2 && words[0] == "evict":
			if err := p.evict(words[1], "there is no room"); err != nil {
				return err
			}
		case len(words) == 1 && words[0] == "stop":
			p.stub.Stop()
		default:
			return fmt.Errorf("no such command: %q", lines.Text())
		}
	}
	return lines.Err()
}

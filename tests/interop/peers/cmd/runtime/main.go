// Command runtime is a runtime on Go's own adaptation, for plugins of ours: it listens, launches what is in a directory, and
// has pods `p0` and so on, with containers `c0` and so on in the first. It obeys a line of JSON on its standard input at a time, and ends with it:
//
//	{"do":"CreateContainer","request":{…}}    relays a request to the plugins, messages as JSON, and answers
//	    {"did":"CreateContainer","reply":{…}} or {"did":"CreateContainer","error":"…"}
//
// and tells in other lines what happens by itself:
//
//	{"log":"…"}                               what the adaptation has to say
//	{"synchronized":["c0",…]}                 containers of which plugins were told, with "updates" or an "error"
//	{"updates":[…],"failed":["c9",…]}         what a plugin asked for by itself, and for which containers it was in vain
//	{"evictions":[…],"in":"CreateContainer"}  what a plugin wants to be evicted, in which call
//
// It is built with several versions of the adaptation. What a version is too old for is told by build tags: see the build script.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nrilog "github.com/containerd/nri/pkg/log"
)

const nowhere = "/nonexistent" // a directory without plugins

// evictions is nil where the adaptation does not let one see them: the file with the build tag fills it in.
var evictions func(*diary) adaptation.Option

func main() {
	log.SetFlags(0)
	log.SetPrefix("runtime: ")
	socket := flag.String("socket", "", "`path` to listen on; nowhere without it")
	plugins := flag.String("plugins", nowhere, "`directory` of plugins to launch")
	configs := flag.String("configs", nowhere, "`directory` of their configurations")
	name := flag.String("name", "go", "what the runtime is called")
	version := flag.String("version", "v1.2.3", "its version")
	pods := flag.Int("pods", 1, "how many pods there are")
	containers := flag.Int("containers", 0, "how many containers there are")
	envBytes := flag.Int("env-bytes", 0, "how much of an environment each of them has")
	request := flag.Duration("request-timeout", 2*time.Second, "how long a plugin may take to answer")
	registration := flag.Duration("registration-timeout", 5*time.Second, "how long a plugin may take to register")
	flag.Parse()
	adaptation.SetPluginRequestTimeout(*request)
	adaptation.SetPluginRegistrationTimeout(*registration)
	options := []adaptation.Option{adaptation.WithPluginPath(*plugins), adaptation.WithPluginConfigPath(*configs)}
	if *socket == "" {
		options = append(options, adaptation.WithDisabledExternalConnections())
	} else {
		options = append(options, adaptation.WithSocketPath(*socket))
	}
	if err := serve(newStore(*pods, *containers, *envBytes), *name, *version, options); err != nil {
		log.Fatal(err)
	}
}

func serve(s *store, name, version string, options []adaptation.Option) error {
	nrilog.Set(&s.diary)
	if evictions != nil {
		options = append(options, evictions(&s.diary))
	}
	nri, err := adaptation.New(name, version, s.synchronize, s.update, options...)
	if err != nil {
		return err
	}
	if err := nri.Start(); err != nil {
		return err
	}
	defer nri.Stop()
	s.write(entry{"did": "start"})
	return obey(nri, &s.diary)
}

// obey is over when nobody has any more commands.
func obey(nri *adaptation.Adaptation, d *diary) error {
	for commands := json.NewDecoder(os.Stdin); ; {
		var command struct {
			Do      string          `json:"do"`
			Request json.RawMessage `json:"request"`
		}
		if err := commands.Decode(&command); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer := entry{"did": command.Do}
		if reply, err := relay(nri, command.Do, command.Request); err != nil {
			answer["error"] = err.Error()
		} else if reply != nil {
			answer["reply"] = words{reply}
		}
		d.write(answer)
	}
}

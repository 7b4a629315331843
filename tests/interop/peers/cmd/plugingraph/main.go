// plugingraph says what Go's own library makes of registrations: a line of JSON each on standard input, an answer for each
// on standard output.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/containerd/plugin"
)

type registration struct {
	Kind     string   `json:"kind"`
	ID       string   `json:"id"`
	Requires []string `json:"requires"`
}

type question struct {
	Registrations []registration `json:"registrations"`
	Disabled      []string       `json:"disabled"`
}

type answer struct {
	Order   []string `json:"order"`
	Refusal string   `json:"refusal"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked question
		if err := in.Decode(&asked); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(order(asked)); err != nil {
			log.Fatal(err)
		}
	}
}

// order registers and sorts; the library says no by panicking.
func order(asked question) (said answer) {
	said.Order = []string{}
	defer func() {
		if refusal := recover(); refusal != nil {
			said = answer{Order: []string{}, Refusal: fmt.Sprint(refusal)}
		}
	}()
	var registry plugin.Registry
	for _, one := range asked.Registrations {
		var requires []plugin.Type
		for _, kind := range one.Requires {
			requires = append(requires, plugin.Type(kind))
		}
		registry = registry.Register(&plugin.Registration{Type: plugin.Type(one.Kind), ID: one.ID, Requires: requires})
	}
	disabled := map[string]bool{}
	for _, uri := range asked.Disabled {
		disabled[uri] = true
	}
	for _, one := range registry.Graph(func(r *plugin.Registration) bool { return disabled[r.URI()] }) {
		said.Order = append(said.Order, one.URI())
	}
	return said
}

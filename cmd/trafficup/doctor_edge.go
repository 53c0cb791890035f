package main

import (
	"io/fs"
	"strings"

	"trafficup/internal/doctor"
	"trafficup/internal/netshape"
)

// neighbours tells which programs of this machine would undo what netshape is to
// set up by the configuration. root is /.
func (d *examination) neighbours(root fs.FS) (all []doctor.Finding) {
	if len(d.c.Netshape.Interfaces) == 0 {
		return nil
	}
	desired, _ := new(netshapeOptions).desired(d.c) // of its mistakes the check of the configuration tells
	for _, n := range netshape.Coexist(root, desired) {
		message := strings.Join([]string{n.Name, n.Interface, n.Text}, ": ")
		if n.Interface == "" {
			message = n.Name + ": " + n.Text
		}
		all = append(all, doctor.Finding{Result: doctor.Warning, What: "neighbour", Message: message, Do: n.Do})
	}
	if all == nil {
		all = []doctor.Finding{{Result: doctor.OK, What: "neighbours", Message: "nobody is set up to shape the same interfaces"}}
	}
	return all
}

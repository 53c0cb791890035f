package source

import (
	"bytes"
	"errors"
)

var errAfterQuote = errors.New("text behind the closing quote of a cell")

// cells splits one row, line by line.
type cells struct {
	delim byte
	text  []byte // the cells without their quotes, one behind the other
	ends  []int
	open  bool // inside a quoted cell
	fault int  // offset of the last open quote or of the fault, in the first line
	lines int
}

func (c *cells) reset() { *c = cells{delim: c.delim, text: c.text[:0], ends: c.ends[:0]} }

func (c *cells) n() int { return len(c.ends) }

// at is the text of cell i, good until reset.
func (c *cells) at(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.text[start:c.ends[i]]
}

// feed takes the next line of the row. open: the row goes on in the next line.
// A carriage return before the line end belongs to the line end, but for inside
// quotes.
func (c *cells) feed(s []byte) (open bool, err error) {
	body, cr := bytes.CutSuffix(s, []byte("\r"))
	i := 0
	for {
		if !c.open {
			if i < len(body) && body[i] == '"' {
				c.open = true
				c.mark(i)
				i++
			} else {
				end := bytes.IndexByte(body[i:], c.delim)
				if end < 0 {
					c.text = append(c.text, body[i:]...)
					c.done()
					return false, nil
				}
				c.text = append(c.text, body[i:i+end]...)
				c.done()
				i += end + 1
				continue
			}
		}
		// Inside quotes, up to the closing one; two quotes stand for one.
		for {
			end := bytes.IndexByte(body[i:], '"')
			if end < 0 {
				c.text = append(c.text, body[i:]...)
				if cr {
					c.text = append(c.text, '\r')
				}
				c.text = append(c.text, '\n')
				c.lines++
				return true, nil
			}
			c.text = append(c.text, body[i:i+end]...)
			i += end + 1
			if i >= len(body) || body[i] != '"' {
				break
			}
			c.text = append(c.text, '"')
			i++
		}
		c.open = false
		c.done()
		switch {
		case i == len(body):
			return false, nil
		case body[i] != c.delim:
			c.mark(i)
			return false, errAfterQuote
		}
		i++
	}
}

func (c *cells) done() { c.ends = append(c.ends, len(c.text)) }

func (c *cells) mark(i int) {
	if c.lines == 0 {
		c.fault = i
	}
}

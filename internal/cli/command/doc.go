// Package command has what the commands of keelson share: the errors of command lines, pages of help, and what they print.
package command

# The program under test; it does the same as echo.c and echo.py.
use strict;
use warnings;
use Taipan;

# A layer that is set once, before the loop, holds for all requests.
binmode STDOUT, ':utf8' if $ENV{TEXT};

use constant BIG => 8 << 20;

while (Taipan::accept()) {
    my $query = $ENV{QUERY_STRING} // '';
    print "Content-Type: text/plain\r\n\r\n";
    if ($query eq 'echo') {
        while (read STDIN, my $piece, 100_000) {
            print $piece;
        }
    }
    elsif ($query eq 'lines') {
        my ($count, $last) = (0, '');
        while (my $line = <STDIN>) {
            ($count, $last) = ($count + 1, $line);
        }
        print "$count $last";
    }
    elsif ($query eq 'big') {
        print 'x' x 65536 for 1 .. BIG >> 16;
    }
    elsif ($query eq 'environment') {
        print join ' ', map { $ENV{$_} // 'none' } qw(BASE ONCE HTTP_PROXY LONG);
    }
    elsif ($query eq 'stderr') {
        warn "oops\n";
        print "Hello!\n";
    }
    elsif ($query eq 'exit') {
        print 'partial';
        exit 3;
    }
    elsif ($query eq 'endless') {
        1 while print "and so on\n";
        print STDERR "left\n";
    }
    elsif ($query eq 'step') {
        {
            local $| = 1;
            print '1';
        }
        read STDIN, my $byte, 1;
        printf '%s%d', $byte, 2;
    }
    elsif ($query eq 'text') {
        print "\x{e9}\x{20ac}";
    }
    else {
        print "Hello!\n";
    }
}

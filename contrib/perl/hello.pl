#!/usr/bin/env perl
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Taipan;

my $count = 0;
while (Taipan::accept()) {
    $count++;
    print "Content-Type: text/plain\r\n\r\nHello!\n";
    print "This is request $count, with the query \"", $ENV{QUERY_STRING} // '', "\".\n";
}

//! The directives of Apache, in lower case.

use dialects::{Dialect, Web};

use crate::rows::{Case, Look, Needless, Table, check};

use Look::{Ask, Exists, Field, FieldOf, File, Get, Line, Part, Says, Secure, Told};

const COMPRESSED: &str = "GET /big.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
const LARGE: &str = "POST /up/ HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890";
const POST: &str = "POST /open/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
const DENIED: &str = "GET /plain HTTP/1.1\r\nHost: x\r\nUser-Agent: Denied\r\n\r\n";
const NAMED: &str = "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";

const APACHE: Table = Table {
    dialect: Dialect::Web(Web::Apache),
    file: "httpd.conf",
    plain: Case {
        flags: &[],
        conf: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n",
        rows: &[
            ("listen", Line, "listen = [\"127.0.0.1:0\"]"),
            ("documentroot", Get("/plain"), "200 plain"),
            ("directory", Get("/plain"), "200 plain"),
        ],
    },
    cases: &[
        Case {
            flags: &[],
            conf: "Listen 127.0.0.1:0\nPidFile HOME/pid\nErrorLog HOME/error_log\nLogLevel notice\n\
                   LogFormat \"%h \\\"%r\\\" %>s \\\"%{User-Agent}i\\\"\" own\nCustomLog HOME/access_log own\n\
                   MaxKeepAliveRequests 5\nKeepAliveTimeout 7\nTimeout 9\nMaxRequestWorkers 77\n\
                   LimitRequestFields 50\nLimitRequestLine 4000\nLimitRequestFieldSize 4000\nRemoteIPTrustedProxy 192.0.2.7\n\
                   <Proxy \"balancer://back\">\nBalancerMember http://UPSTREAM\nProxySet lbmethod=bybusyness\n</Proxy>\n\
                   DocumentRoot HOME/www\nServerAdmin root@b.example\n<Directory />\nRequire all granted\n</Directory>\n\
                   <Directory HOME/www>\nOptions +Indexes\nIndexIgnore .??* *~\nAllowOverride All\n</Directory>\n\
                   <Directory HOME/docs>\nOptions None\n</Directory>\n\
                   DirectoryIndex other.html\nAlias /docs HOME/docs\nScriptAlias /scripts/ HOME/scripts/\n\
                   AliasMatch ^/(icons|pictures)/(.*)$ HOME/icons/$2\nScriptAliasMatch ^/more/(.*)$ HOME/scripts/$1\n\
                   Redirect 301 /old /new\nRedirectPermanent /gone-for-good /new\nRedirectTemp /away /new\n\
                   RedirectMatch 410 ^/matched$\nErrorDocument 404 /missing.html\nAddType image/x-own .own\n\
                   AddDefaultCharset koi8-r\nHeader always set X-Own yes\nExpiresActive On\nExpiresDefault \"access plus 1 hour\"\n\
                   ExpiresByType image/png \"access plus 1 day\"\nSetEnv COLOR blue\nAddHandler cgi-script .cgi\n\
                   AddOutputFilterByType DEFLATE text/plain\n\
                   <Directory HOME/www/sub>\nFallbackResource /other.html\n</Directory>\n\
                   <Location /private>\nAuthType Basic\nAuthName Own\nAuthBasicProvider file\nAuthUserFile HOME/users\nAuthGroupFile HOME/groups\n\
                   Require group staff\n</Location>\n\
                   <LocationMatch \"\\.two$\">\nRequire all denied\n</LocationMatch>\n<Files \"big*\">\nHeader set X-Big yes\n</Files>\n\
                   <FilesMatch \"\\.png$\">\nHeader set X-Match yes\n</FilesMatch>\n\
                   <Location /near>\nOrder allow,deny\nDeny from all\nAllow from 192.0.2.1\n</Location>\n\
                   <Directory HOME/www/open>\n<LimitExcept GET>\nRequire all denied\n</LimitExcept>\n</Directory>\n\
                   <Directory HOME/www/run.d>\nOptions +ExecCGI\n</Directory>\n\
                   <Location /cgi-bin>\nSetHandler cgi-script\nOptions +ExecCGI\n</Location>\n\
                   LimitRequestBody 10\nProxyPass /up/ balancer://back/\nProxyPreserveHost On\nRequestHeader set X-Own yes\n\
                   RewriteEngine On\nRewriteRule ^/rewritten$ /plain [L]\nRewriteRule ^/queried/(.*)$ /scripts/env.sh?id=$1 [QSA,PT]\n\
                   <If \"%{HTTP_USER_AGENT} =~ /Denied/\">\nRequire all denied\n</If>\n",
            rows: &[
                ("pidfile", File("pid"), "PID"),
                ("errorlog", Exists("error_log"), "there"),
                ("loglevel", Line, "level = \"info\""),
                ("logformat", Line, "format = \"combined\""),
                ("maxkeepaliverequests", Line, "requests = 5"),
                ("keepalivetimeout", Line, "idle = 7"),
                ("timeout", Line, "write = 9"),
                ("maxrequestworkers", Line, "connections = 77"),
                ("limitrequestfields", Line, "fields = 50"),
                ("limitrequestline", Line, "target = 4000"),
                ("limitrequestfieldsize", Says, "note: a field has no limit of its own"),
                ("remoteiptrustedproxy", Line, "trusted_proxies = [\"192.0.2.7\"]"),
                ("proxy", Part("/up/a"), "GET /a HTTP/1.1"),
                ("balancermember", Part("/up/a"), "GET /a HTTP/1.1"),
                ("serveradmin", Told("/scripts/env.sh"), "SERVER_ADMIN=root@b.example"),
                ("options", Part("/sub/"), "page.html"),
                ("allowoverride", Field("/open/x", "x-access"), "file"),
                ("directoryindex", Get("/"), "200 other"),
                ("indexignore", Line, "dotfiles = \"unlisted\""),
                ("alias", Get("/docs/one.html"), "200 one"),
                ("scriptalias", Told("/scripts/env.sh"), "SCRIPT_NAME=/scripts/env.sh"),
                ("aliasmatch", Get("/icons/i.png"), "200 icon"),
                ("aliasmatch", Get("/pictures/i.png"), "200 icon"),
                ("scriptaliasmatch", Told("/more/env.sh"), "SCRIPT_NAME=/more/env.sh"),
                ("redirect", Get("/old/a"), "301 /new/a"),
                ("redirectpermanent", Get("/gone-for-good"), "301 /new"),
                ("redirecttemp", Get("/away"), "302 /new"),
                ("redirectmatch", Get("/matched"), "410"),
                ("errordocument", Get("/none"), "404 not here"),
                ("addtype", Field("/a.own", "content-type"), "image/x-own"),
                ("adddefaultcharset", Field("/index.html", "content-type"), "text/html; charset=koi8-r"),
                ("header", Field("/plain", "x-own"), "yes"),
                ("expiresactive", Field("/plain", "cache-control"), "max-age=3600"),
                ("expiresdefault", Field("/plain", "cache-control"), "max-age=3600"),
                ("expiresbytype", Field("/i.png", "cache-control"), "max-age=86400"),
                ("setenv", Told("/scripts/env.sh"), "COLOR=blue"),
                ("addoutputfilterbytype", FieldOf(COMPRESSED, "content-encoding"), "gzip"),
                ("location", Get("/private/x"), "401"),
                ("authtype", Get("/private/x"), "401"),
                (
                    "authname",
                    Field("/private/x", "www-authenticate"),
                    "Basic realm=\"Own\", charset=\"UTF-8\"",
                ),
                ("authuserfile", Get("/private/x"), "401"),
                ("authgroupfile", Line, "require = [\"group:staff\"]"),
                ("require", Get("/private/x"), "401"),
                ("locationmatch", Get("/a.two"), "403"),
                ("files", Field("/big.txt", "x-big"), "yes"),
                ("filesmatch", Field("/i.png", "x-match"), "yes"),
                ("order", Get("/near/x"), "403"),
                ("deny", Get("/near/x"), "403"),
                ("allow", Get("/near/x"), "403"),
                ("limitexcept", Ask(POST), "403"),
                ("if", Ask(DENIED), "403"),
                ("sethandler", Told("/cgi-bin/env"), "SCRIPT_NAME=/cgi-bin/env"),
                ("limitrequestbody", Ask(LARGE), "413"),
                ("proxypass", Part("/up/a"), "GET /a HTTP/1.1"),
                ("proxypreservehost", Told("/up/a"), "host: localhost"),
                ("requestheader", Told("/up/a"), "x-own: yes"),
                ("rewriteengine", Get("/rewritten"), "200 plain"),
                ("rewriterule", Get("/rewritten"), "200 plain"),
                ("rewriterule", Told("/queried/a%26b?c"), "QUERY_STRING=id=a%26b&c"),
                ("fallbackresource", Get("/sub/none"), "200 other"),
                ("customlog", File("access_log"), "\"GET /plain HTTP/1.1\" 200"),
                ("customlog", Line, "timezone = \"local\""),
            ],
        },
        Case {
            flags: &[],
            conf: "Listen 127.0.0.1:0\nKeepAlive Off\n<Directory />\nRequire all granted\n</Directory>\n\
                   DocumentRoot HOME/docs\n<VirtualHost 127.0.0.1:*>\nServerName a.example\nServerAlias b.example\nDocumentRoot HOME/www\n\
                   TransferLog HOME/transfer_log\nDirectoryIndex other.html\nAddHandler cgi-script .cgi\n\
                   <Directory HOME/www>\nOptions +ExecCGI\n</Directory>\nUserDir public_html\nAccessFileName .none\nDefaultType application/x-default\n\
                   <Directory HOME/www/private>\n<RequireAll>\nRequire all granted\nRequire not ip 127\n</RequireAll>\n</Directory>\n\
                   <Directory HOME/www/near>\n<RequireAny>\nRequire ip 192.0.2.1\nRequire ip 192.0.2.2\n</RequireAny>\n</Directory>\n\
                   <Location /locked>\n<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 127\n</RequireNone>\n</RequireAll>\n</Location>\n\
                   <Location /open>\nSSLRequireSSL\n</Location>\nProxyPass /up/ http://UPSTREAM/\n<Location /away>\nProxyPass http://UPSTREAM/\n</Location>\n\
                   RewriteCond %{REQUEST_FILENAME} !-f\nRewriteEngine On\nRewriteRule ^(.*)$ /plain [L]\n</VirtualHost>\n",
            rows: &[
                ("keepalive", Field("/plain", "connection"), "close"),
                ("virtualhost", Ask(NAMED), "200 other"),
                ("servername", Line, "names = [\"a.example\", \"b.example\"]"),
                ("serveralias", Ask(NAMED), "200 other"),
                ("transferlog", File("transfer_log"), "\"GET /plain HTTP/1.1\" 200"),
                ("addhandler", Told("/run.cgi"), "SCRIPT_NAME=/run.cgi"),
                ("userdir", Line, "user_folders = \"public_html\""),
                ("accessfilename", Line, "user_folders = \"public_html\""),
                ("defaulttype", Field("/plain", "content-type"), "application/x-default"),
                ("requireall", Get("/private/x"), "403"),
                ("requireany", Get("/near/x"), "403"),
                ("requirenone", Get("/locked/x"), "403"),
                ("sslrequiressl", Get("/open/x"), "403"),
                ("rewritecond", Get("/nothing"), "200 plain"),
            ],
        },
        Case {
            flags: &[],
            conf: "Listen 127.0.0.1:0\n<Directory />\nRequire all granted\n</Directory>\nDocumentRoot HOME/www\n\
                   ServerName localhost\nSSLEngine on\nSSLCertificateFile HOME/certificate.pem\n\
                   SSLCertificateKeyFile HOME/key.pem\nSSLProtocol TLSv1.3\n",
            rows: &[
                ("sslengine", Secure, "200"),
                ("sslcertificatefile", Secure, "200"),
                ("sslcertificatekeyfile", Secure, "200"),
                ("sslprotocol", Line, "versions = [\"1.3\"]"),
            ],
        },
        Case {
            flags: &[],
            conf: "Listen 443\nUser daemon\nGroup nogroup\nChrootDir /srv\nMaxClients 66\nRemoteIPInternalProxy 192.0.2.8\n\
                   RemoteIPHeader X-Forwarded-For\nRemoteIPProxiesHeader X-By\nDocumentRoot /srv\n\
                   <Proxy \"balancer://two\">\nBalancerMember http://192.0.2.1\nBalancerMember http://192.0.2.2\nProxySet lbmethod=bybusyness\n</Proxy>\n\
                   ProxyPass /two balancer://two\nProxyRequests Off\n<ProxyMatch \".*\">\nRequire all granted\n</ProxyMatch>\n\
                   SSLEngine on\nSSLCertificateFile /c.pem\nSSLCertificateKeyFile /k.pem\nSSLCertificateChainFile /chain.pem\n\
                   SSLCACertificateFile /ca.pem\nSSLCARevocationFile /crl.pem\nSSLVerifyClient optional\n\
                   <DirectoryMatch \"/private/\">\nRequire all denied\n</DirectoryMatch>\n\
                   <Location /any>\nAuthType Digest\nAuthName Own\nAuthDigestProvider file\nAuthUserFile /users\nRequire valid-user\nSatisfy Any\nOrder deny,allow\n\
                   Deny from all\nAllow from 192.0.2.1\n</Location>\n<Location /read>\n<Limit PUT>\nRequire all denied\n</Limit>\n</Location>\n\
                   AllowOverrideList None\nDirectorySlash On\nForceType None\n\
                   <Directory /srv/cgi>\nSetHandler cgi-script\nOptions ExecCGI\nCGIPassAuth On\n</Directory>\n\
                   <Directory /srv>\nAddHandler cgi-script .cgi\nOptions ExecCGI\n</Directory>\n<Directory /srv/none>\nRemoveHandler .cgi\n</Directory>\n\
                   SetOutputFilter DEFLATE\nRewriteOptions Inherit\nAuthMerging Off\nAuthBasicAuthoritative On\nAuthDigestDomain /\nAuthDigestQop auth\n\
                   AuthDigestAlgorithm MD5\nProxyPassMatch ^/match/(.*)$ http://192.0.2.3/$1\n\
                   php_value a 1\nphp_flag b on\nphp_admin_value c 1\nphp_admin_flag d on\nAllowEncodedSlashes On\nAcceptPathInfo On\nProxyTimeout 5\n",
            rows: &[
                ("user", Line, "user = \"daemon\""),
                ("group", Line, "group = \"nogroup\""),
                ("chrootdir", Line, "chroot = \"/srv\""),
                ("maxclients", Line, "connections = 66"),
                ("remoteipinternalproxy", Line, "trusted_proxies = [\"192.0.2.8\"]"),
                ("proxyset", Line, "balance = \"least\""),
                ("sslcertificatechainfile", Says, "warning: the chain is not read"),
                ("sslcacertificatefile", Line, "client_ca = \"/ca.pem\""),
                ("sslcarevocationfile", Line, "client_crl = \"/crl.pem\""),
                ("sslverifyclient", Line, "client_certificates = \"optional\""),
                ("directorymatch", Line, "path = \"/**/private/**\""),
                ("authdigestprovider", Line, "auth = \"digest\""),
                ("satisfy", Line, "satisfy = \"any\""),
                ("limit", Line, "method = [\"PUT\"]"),
                ("directoryslash", Says, "note: folders without a slash are redirected in any case"),
                ("removehandler", Line, "path = \"/none/**/*.cgi\""),
                ("setoutputfilter", Line, "compress = true"),
                ("rewriteoptions", Says, "note: RewriteOptions has no effect"),
                ("cgipassauth", Line, "pass_authorization = true"),
                ("proxypassmatch", Line, "path = \"/match/\""),
                ("acceptpathinfo", Says, "note: only scripts get what follows a name"),
                ("allowencodedslashes", Says, "warning: an encoded slash is rejected"),
                ("proxytimeout", Says, "warning: ProxyTimeout is not converted"),
                ("php_value", Says, "warning: php_value a 1 is not converted; set it in PHP-FPM"),
                ("php_flag", Says, "warning: php_flag b on is not converted"),
                ("php_admin_value", Says, "warning: php_admin_value c 1 is not converted"),
                ("php_admin_flag", Says, "warning: php_admin_flag d on is not converted"),
            ],
        },
        Case {
            flags: &[],
            conf: "DocumentRoot /srv\n<Directory /srv/cgi>\nSetHandler cgi-script\nOptions ExecCGI\n\
                   SetEnvIf ^Authorization$ \"(.+)\" HTTP_AUTHORIZATION=$1\n</Directory>\n",
            rows: &[("setenvif", Line, "pass_authorization = true")],
        },
        Case {
            flags: &[],
            conf: "DocumentRoot /srv\n<Directory /srv/cgi>\nSetHandler cgi-script\nOptions ExecCGI\n\
                   SetEnvIfNoCase ^Authorization$ \"(.+)\" HTTP_AUTHORIZATION=$1\n</Directory>\n",
            rows: &[("setenvifnocase", Line, "pass_authorization = true")],
        },
    ],
    neutral: &[Case {
        flags: &[],
        conf: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n\
               <ProxyMatch \".*\">\nRequire all granted\n</ProxyMatch>\n",
        rows: &[("proxymatch", Get("/plain"), "200 plain")],
    }],
    needless: &[
        Needless {
            before: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n",
            names: &[
                "defaultruntimedir",
                "startservers",
                "serverlimit",
                "minsparethreads",
                "maxsparethreads",
                "minspareservers",
                "maxspareservers",
                "threadlimit",
                "threadsperchild",
                "threadstacksize",
                "maxconnectionsperchild",
                "maxrequestsperchild",
                "asyncrequestworkerfactor",
                "gracefulshutdowntimeout",
                "listenbacklog",
                "sendbuffersize",
                "receivebuffersize",
                "maxmemfree",
                "coredumpdirectory",
                "scoreboardfile",
                "extendedstatus",
                "proxystatus",
                "seerequesttail",
                "protocols",
                "protocolshonororder",
                "requestreadtimeout",
                "scriptsock",
                "loadfile",
                "languagepriority",
                "deflatecompressionlevel",
                "bufferedlogs",
            ],
            argument: " 1",
            behind: "",
        },
        Needless {
            before: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n",
            names: &[
                "serversignature",
                "servertokens",
                "usecanonicalname",
                "usecanonicalphysicalport",
                "hostnamelookups",
                "enablesendfile",
                "enablemmap",
                "traceenable",
                "contentdigest",
                "fileetag",
                "indexoptions",
                "indexorderdefault",
                "indexstylesheet",
                "addicon",
                "addiconbytype",
                "addiconbyencoding",
                "defaulticon",
                "adddescription",
                "addalt",
                "readmename",
                "headername",
                "addlanguage",
                "forcelanguagepriority",
                "addencoding",
                "addcharset",
                "browsermatch",
                "browsermatchnocase",
                "filterdeclare",
                "rewritebase",
                "mimemagicfile",
                "typesconfig",
                "namevirtualhost",
                "acceptfilter",
                "mutex",
                "directorycheckhandler",
                "proxypassreverse",
                "proxypassreversecookiepath",
                "proxypassreversecookiedomain",
                "proxyvia",
                "proxyaddheaders",
                "proxyerroroverride",
                "cachedisable",
                "keptbodysize",
                "addoutputfilter",
                "metadir",
                "removetype",
                "removelanguage",
                "removecharset",
                "removeencoding",
                "authbasicauthoritative",
                "authdigestdomain",
                "authdigestqop",
                "authdigestalgorithm",
            ],
            argument: " on",
            behind: "</Directory>\n",
        },
        Needless {
            before: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n",
            names: &[
                "sslciphersuite",
                "sslhonorcipherorder",
                "sslsessiontickets",
                "sslsessioncache",
                "sslsessioncachetimeout",
                "sslusestapling",
                "sslstaplingcache",
                "sslcompression",
                "sslrandomseed",
                "sslpassphrasedialog",
                "ssloptions",
                "sslopensslconfcmd",
                "sslcryptodevice",
                "sslstrictsnivhostcheck",
                "sslproxyengine",
                "sslstaplingresponsemaxage",
                "sslstaplingrespondertimeout",
                "sslstaplingreturnrespondererrors",
                "sslverifydepth",
                "sslproxyprotocol",
                "sslproxyciphersuite",
                "sslproxyverify",
                "sslproxycheckpeername",
                "sslproxycheckpeercn",
                "sslproxycheckpeerexpire",
                "remoteipheader",
                "remoteipproxiesheader",
            ],
            argument: " on",
            behind: "",
        },
        Needless {
            before: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n",
            names: &["authbasicprovider"],
            argument: " file",
            behind: "</Directory>\n",
        },
        Needless {
            before: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n",
            names: &["proxyrequests", "authmerging"],
            argument: " off",
            behind: "",
        },
        Needless {
            before: "Listen 127.0.0.1:0\nDocumentRoot HOME/www\n<Directory />\nRequire all granted\n</Directory>\n",
            names: &["allowoverridelist", "forcetype"],
            argument: " none",
            behind: "<ProxyMatch \".*\">\nRequire all granted\n</ProxyMatch>\n",
        },
    ],
    printed: &[],
};

#[test]
fn apache() {
    check(&APACHE);
}

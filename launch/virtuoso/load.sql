-- All of /dump into one graph; run it from as many isql sessions as there are cores to spare, the last line once.
ld_dir('/dump', '*.nt.gz', 'http://freebase.com');
ld_dir('/dump', '*.nt', 'http://freebase.com');
rdf_loader_run();
checkpoint;
select ll_file, ll_error from DB.DBA.LOAD_LIST where ll_error is not null or ll_state <> 2;

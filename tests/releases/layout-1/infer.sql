BEGIN TRANSACTION;
CREATE TABLE infer_database_id (
	id VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "infer_database_id" VALUES('c3f6f3b96537a837959c6f2f6c47292e');
CREATE TABLE infer_images (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	location VARCHAR NOT NULL, 
	added_at DATETIME NOT NULL, 
	size BIGINT, 
	sha256 VARCHAR(64), 
	modified DOUBLE, 
	queued_at DATETIME, 
	missing_since DATETIME, 
	CONSTRAINT uq_infer_images_location UNIQUE (location)
);
INSERT INTO "infer_images" VALUES(1,'/srv/photos/000.png','2026-11-20 12:00:00.000000',329,NULL,1.79565475254057121271e+09,NULL,NULL);
INSERT INTO "infer_images" VALUES(2,'/srv/photos/001.png','2026-11-20 12:00:00.000000',346,NULL,1.7956547525411896706e+09,NULL,NULL);
INSERT INTO "infer_images" VALUES(3,'/srv/photos/002.png','2026-11-20 12:00:00.000000',365,NULL,1.79565475254175662992e+09,NULL,NULL);
INSERT INTO "infer_images" VALUES(4,'/srv/photos/003.png','2026-11-20 12:00:00.000000',372,NULL,1.79565475254231500619e+09,NULL,NULL);
INSERT INTO "infer_images" VALUES(5,'/srv/photos/004.png','2026-11-20 12:00:00.000000',377,NULL,1.79565475255563807488e+09,NULL,NULL);
INSERT INTO "infer_images" VALUES(6,'/srv/photos/broken.jpg','2026-11-20 12:00:00.000000',200,NULL,1.79565475268869018552e+09,NULL,NULL);
CREATE TABLE infer_label_groups (
	model VARCHAR(128) NOT NULL, 
	label VARCHAR(512) NOT NULL, 
	depth INTEGER NOT NULL, 
	ancestor VARCHAR(512) NOT NULL, 
	PRIMARY KEY (model, label, depth)
);
INSERT INTO "infer_label_groups" VALUES('species','blue',-1,'');
CREATE TABLE infer_migrations (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT infer_migrations_pkc PRIMARY KEY (version_num)
);
INSERT INTO "infer_migrations" VALUES('0.1.0');
CREATE TABLE infer_models (
	id VARCHAR(64) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	manifest JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	in_use_since DATETIME, 
	used_until DATETIME, 
	PRIMARY KEY (id, name)
);
INSERT INTO "infer_models" VALUES('01de057d1de0ee00','vectors','{"name": "vectors", "model_id": "01de057d1de0ee00", "recipe": {"kind": "stretch", "size": 16, "resize": null, "crop": null, "interpolation": "bicubic", "exif": "apply", "decode": "exact"}, "input": "float-nchw", "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "output": {"kind": "embedding", "activation": "softmax", "threshold": 0.5, "top_k": 5, "vector_dtype": "float32", "shape": null}, "num_outputs": 3, "source": "colors.ts", "source_kind": "torchscript", "source_sha256": "6a7e8258b2ce58c7c576e42be58dab8a8171c635553e364e98cea3ecdf222a6f", "preprocess": null, "golden": ["golden/1.jpg", "golden/2.jpg", "golden/3.png", "golden/4.jpg"], "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "created_at": "2026-11-26T00:58:51.401900+00:00", "built_with": {"infer_app": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"}, "files": {"golden/1.jpg": "cc587aa146438c46333d726850636791c78cde9e9b6c5f15dd349d0ec8d43869", "golden/2.jpg": "f68c68144a432fd12179bee48a037a31c761dd0281c1658e60161d78a0e1d293", "golden/3.png": "dabb433b0254089325003a02ba72e467c187930cc41849175ebce3c5067743f7", "golden/4.jpg": "0dea2866db38cba974e822a0b536f34edeb23221439cf0309901e19ea5cb8bd6", "golden/outputs.npy": "5c1bb03f51e459a8863f48935335a062858754329c89f4728ee5b53513f07d00", "golden/pixels.npy": "ad55bbee2271238fd2696124f0396ed218be57bbad157f22a8d33f7db7dd12e8", "source.ts": "6a7e8258b2ce58c7c576e42be58dab8a8171c635553e364e98cea3ecdf222a6f", "variants/cpu-openvino-fp32/model.xml": "ee386581054135723cb87a902eb9dcc85287bebd94a54adfa4784037c4becaae", "variants/cpu-openvino-fp32/model.bin": "11057e37f093d0e52659a6621349cd54c2900894abed375a3a1e02ab27738935"}, "variants": {"cpu-torchscript": {"parity": {"num_images": 4, "cosine": 0.9999999999999982, "label_agreement": 1.0, "worst_difference": 4.76837158203125e-07, "relative_difference": 1.023029624482654e-07}}, "cpu-openvino-fp32": {"parity": {"num_images": 4, "cosine": 0.9999999999999982, "label_agreement": 1.0, "worst_difference": 4.76837158203125e-07, "relative_difference": 1.023029624482654e-07}}, "cpu-openvino-bf16": {"parity": {"num_images": 4, "cosine": 0.9999999999999982, "label_agreement": 1.0, "worst_difference": 4.76837158203125e-07, "relative_difference": 1.023029624482654e-07}, "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "min_agreement": 0.97, "meets_bar": true, "ms_when_built": {"bf16": 0.0216, "fp32": 0.0125}, "is_faster": false}}, "format": 1, "output_name": null, "weights": null, "crop": {"of": "cells", "min_score": 0.05, "labels": [], "rule": {"kind": "box", "margin": 0.0, "margin_px": 0, "least_px": 0, "rounding": "int"}}, "labels": []}','2026-11-26 00:59:48.121000','2026-11-26 00:59:48.121000',NULL);
INSERT INTO "infer_models" VALUES('73d4266551521c08','species','{"name": "species", "model_id": "73d4266551521c08", "recipe": {"kind": "stretch", "size": 16, "resize": null, "crop": null, "interpolation": "bicubic", "exif": "apply", "decode": "exact"}, "input": "float-nchw", "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "output": {"kind": "classification", "activation": "softmax", "threshold": 0.5, "top_k": 5, "vector_dtype": "float32", "shape": null}, "num_outputs": 3, "source": "colors.ts", "source_kind": "torchscript", "source_sha256": "6a7e8258b2ce58c7c576e42be58dab8a8171c635553e364e98cea3ecdf222a6f", "preprocess": null, "golden": ["golden/1.jpg", "golden/2.jpg", "golden/3.png", "golden/4.jpg"], "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "created_at": "2026-11-26T00:58:34.402438+00:00", "built_with": {"infer_app": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"}, "files": {"crop.py": "8cfddda6fa3c2c7b11ec96d08c6568e433690a47dc8627b55954244519ab5a55", "golden/1.jpg": "cc587aa146438c46333d726850636791c78cde9e9b6c5f15dd349d0ec8d43869", "golden/2.jpg": "f68c68144a432fd12179bee48a037a31c761dd0281c1658e60161d78a0e1d293", "golden/3.png": "dabb433b0254089325003a02ba72e467c187930cc41849175ebce3c5067743f7", "golden/4.jpg": "0dea2866db38cba974e822a0b536f34edeb23221439cf0309901e19ea5cb8bd6", "golden/outputs.npy": "5c1bb03f51e459a8863f48935335a062858754329c89f4728ee5b53513f07d00", "golden/pixels.npy": "ad55bbee2271238fd2696124f0396ed218be57bbad157f22a8d33f7db7dd12e8", "labels.txt": "9fec8b87d457cdab76088586670cbcc3b6f5f39ef95b320c07f4ec2b539c2be4", "source.ts": "6a7e8258b2ce58c7c576e42be58dab8a8171c635553e364e98cea3ecdf222a6f", "variants/cpu-openvino-fp32/model.xml": "ee386581054135723cb87a902eb9dcc85287bebd94a54adfa4784037c4becaae", "variants/cpu-openvino-fp32/model.bin": "11057e37f093d0e52659a6621349cd54c2900894abed375a3a1e02ab27738935"}, "variants": {"cpu-torchscript": {"parity": {"num_images": 4, "cosine": 0.9999999999999982, "label_agreement": 1.0, "worst_difference": 4.76837158203125e-07, "relative_difference": 1.023029624482654e-07, "worst_score_difference": 7.045627770096985e-08, "p99_score_difference": 6.961526687832008e-08}}, "cpu-openvino-fp32": {"parity": {"num_images": 4, "cosine": 0.9999999999999982, "label_agreement": 1.0, "worst_difference": 4.76837158203125e-07, "relative_difference": 1.023029624482654e-07, "worst_score_difference": 9.600167583112551e-08, "p99_score_difference": 9.523531388722084e-08}}, "cpu-openvino-bf16": {"parity": {"num_images": 4, "cosine": 0.9999999999999982, "label_agreement": 1.0, "worst_difference": 4.76837158203125e-07, "relative_difference": 1.023029624482654e-07, "worst_score_difference": 9.600167583112551e-08, "p99_score_difference": 9.523531388722084e-08}, "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "min_agreement": 0.99, "meets_bar": true, "ms_when_built": {"bf16": 0.0187, "fp32": 0.0105}, "is_faster": false}}, "format": 1, "output_name": null, "weights": null, "crop": {"of": "cells", "min_score": 0.85, "labels": ["animal"], "rule": {"kind": "own:slowly", "margin": 0.0, "margin_px": 0, "least_px": 0, "rounding": "int"}}, "labels": ["red", "green", "blue"]}','2026-11-26 00:59:48.187000','2026-11-26 00:59:48.187000',NULL);
INSERT INTO "infer_models" VALUES('91ff8e45c6e77eca','cells','{"name": "cells", "model_id": "91ff8e45c6e77eca", "recipe": {"kind": "letterbox", "size": 128, "resize": null, "crop": null, "interpolation": "bilinear", "exif": "apply", "decode": "exact", "pad": 114}, "input": "float-nchw", "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "output": {"kind": "detection", "activation": "none", "threshold": 0.5, "top_k": 5, "vector_dtype": "float32", "shape": null, "detection": {"head": "own:head", "min_score": 0.05, "nms": 0.45, "max_objects": 300, "shapes": [[16, 6]]}}, "num_outputs": 96, "source": "cells.ts", "source_kind": "torchscript", "source_sha256": "5b6b25ccf899882029c2382716a5a87fdb21fa5f401869e46ecebf85b106aaa4", "preprocess": null, "golden": ["golden/1.png", "golden/2.png"], "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "created_at": "2026-11-26T00:58:12.331872+00:00", "built_with": {"infer_app": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"}, "files": {"golden/1.png": "364cbf76cd1cc622dd32c752c80471ef2cb94a8ac3b6a9683186c59450bd8532", "golden/2.png": "63281e5e122c2dadfe1a4c6256ec6e794e34ec457eb00eb6dc05edb233b017f0", "golden/outputs.npy": "1ad3b3ae62ab687c37ab522cb76dd5e885d05f37247e1121c3b893803b95c6c5", "golden/pixels.npy": "ed4ce71359af2895ae18ad697d87c70149b567e8fcdb7dfaa0484532ad509e30", "head.py": "8cfddda6fa3c2c7b11ec96d08c6568e433690a47dc8627b55954244519ab5a55", "labels.txt": "4952dfce50ad6e9981f0046a55e53263182e683e3a80a6eeae6cbc7f9ad58b1a", "source.ts": "5b6b25ccf899882029c2382716a5a87fdb21fa5f401869e46ecebf85b106aaa4", "variants/cpu-openvino-fp32/model.xml": "609a4ab7e5c855046345e3a48fd8ee407da3cd8cd7b6bae90f50cf3b7e268932", "variants/cpu-openvino-fp32/model.bin": "b641f0ba0ad02c5493ae5dd2965b1e50fe95f526ea44dafca601cc1a65a663c4"}, "variants": {"cpu-torchscript": {"parity": {"num_images": 2, "cosine": 1.0, "worst_difference": 0.0, "relative_difference": 0.0, "worst_score_difference": 0.0, "p99_score_difference": 0.0, "num_objects": 24, "object_agreement": 1.0}}, "cpu-openvino-fp32": {"parity": {"num_images": 2, "cosine": 1.0, "worst_difference": 0.0, "relative_difference": 0.0, "worst_score_difference": 0.0, "p99_score_difference": 0.0, "num_objects": 24, "object_agreement": 1.0}}, "cpu-openvino-bf16": {"parity": {"num_images": 2, "cosine": 1.0, "worst_difference": 0.0, "relative_difference": 0.0, "worst_score_difference": 0.0, "p99_score_difference": 0.0, "num_objects": 24, "object_agreement": 1.0}, "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "min_agreement": 0.97, "meets_bar": true, "ms_when_built": {"bf16": 0.0727, "fp32": 0.0694}, "is_faster": false}}, "format": 1, "output_name": null, "weights": null, "crop": null, "labels": ["animal", "vehicle"]}','2026-11-26 00:59:48.206000','2026-11-26 00:59:48.206000',NULL);
INSERT INTO "infer_models" VALUES('05af96a26ecdbc60','colors','{"name": "colors", "model_id": "05af96a26ecdbc60", "recipe": {"kind": "stretch", "size": 16, "resize": null, "crop": null, "interpolation": "bicubic", "exif": "apply", "decode": "exact"}, "input": "float-nchw", "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "output": {"kind": "classification", "activation": "softmax", "threshold": 0.5, "top_k": 5, "vector_dtype": "float32", "shape": null}, "num_outputs": 3, "source": "colors.ts", "source_kind": "torchscript", "source_sha256": "6a7e8258b2ce58c7c576e42be58dab8a8171c635553e364e98cea3ecdf222a6f", "preprocess": null, "golden": ["golden/1.png", "golden/2.png", "golden/3.png"], "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "created_at": "2026-11-26T00:59:07.260861+00:00", "built_with": {"infer_app": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"}, "files": {"golden/1.png": "14346f8be2485936309b79a31459369863f28201e27af58f2616e38505e4bf78", "golden/2.png": "b8c1705ea42eb5ef658f787c1414715bd15f5800991d1a48fec3b2d0a2110324", "golden/3.png": "e74d3d4ee8313e034ff4be4ac24104dab8ef051ef8414d40157ee663406d9eeb", "golden/outputs.npy": "8ce250b7128abbb5a8ac7478bd0d3e9e83ce59a8a194c7deb0a0800c865f867d", "golden/pixels.npy": "4ffe1fac7fc74288e5bdb2bcb1137a9e1a523c5caea779e6e6f9ac39359ee09b", "labels.txt": "9fec8b87d457cdab76088586670cbcc3b6f5f39ef95b320c07f4ec2b539c2be4", "source.ts": "6a7e8258b2ce58c7c576e42be58dab8a8171c635553e364e98cea3ecdf222a6f", "variants/cpu-openvino-fp32/model.xml": "ee386581054135723cb87a902eb9dcc85287bebd94a54adfa4784037c4becaae", "variants/cpu-openvino-fp32/model.bin": "11057e37f093d0e52659a6621349cd54c2900894abed375a3a1e02ab27738935"}, "variants": {"cpu-torchscript": {"parity": {"num_images": 3, "cosine": 0.9999999999999993, "label_agreement": 1.0, "worst_difference": 9.5367431640625e-07, "relative_difference": 1.5199184168590566e-07, "worst_score_difference": 1.2275503280534394e-08, "p99_score_difference": 1.2275503276093502e-08}}, "cpu-openvino-fp32": {"parity": {"num_images": 3, "cosine": 0.9999999999999993, "label_agreement": 1.0, "worst_difference": 9.5367431640625e-07, "relative_difference": 1.5199184168590566e-07, "worst_score_difference": 1.2275503280534394e-08, "p99_score_difference": 1.2275503276093502e-08}}, "cpu-openvino-bf16": {"parity": {"num_images": 3, "cosine": 0.9999999999999993, "label_agreement": 1.0, "worst_difference": 9.5367431640625e-07, "relative_difference": 1.5199184168590566e-07, "worst_score_difference": 1.2275503280534394e-08, "p99_score_difference": 1.2275503276093502e-08}, "tolerance": {"pixel_levels": 2, "cosine": 0.9999, "relative": 0.001}, "min_agreement": 0.99, "meets_bar": true, "ms_when_built": {"bf16": 0.0229, "fp32": 0.0103}, "is_faster": false}}, "format": 1, "output_name": null, "weights": null, "crop": null, "labels": ["red", "green", "blue"]}','2026-11-26 01:00:00.654000','2026-11-26 01:00:00.654000',NULL);
CREATE TABLE infer_object_predictions (
	image_id VARCHAR(512) NOT NULL, 
	model_id VARCHAR(64) NOT NULL, 
	object INTEGER NOT NULL, 
	label VARCHAR, 
	score DOUBLE, 
	output JSON NOT NULL, 
	vector BLOB, 
	vector_dtype VARCHAR(16), 
	vector_dim INTEGER, 
	PRIMARY KEY (image_id, model_id, object)
);
INSERT INTO "infer_object_predictions" VALUES('5','73d4266551521c08',0,'green',0.994870662689209,'{"top": [{"label": "green", "index": 1, "score": 0.994870662689209}, {"label": "red", "index": 0, "score": 0.0025646635331213474}, {"label": "blue", "index": 2, "score": 0.0025646635331213474}]}',NULL,NULL,NULL);
INSERT INTO "infer_object_predictions" VALUES('5','01de057d1de0ee00',0,NULL,NULL,'{}',X'F1F0703FDFDCDC40F1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('5','01de057d1de0ee00',1,NULL,NULL,'{}',X'F1F0703FF1F0703FDFDCDC40','float32',3);
INSERT INTO "infer_object_predictions" VALUES('5','01de057d1de0ee00',2,NULL,NULL,'{}',X'DFDCDC40F1F0703FF1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('5','01de057d1de0ee00',3,NULL,NULL,'{}',X'F1F0703FDFDCDC40F1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('2','73d4266551521c08',0,'green',0.994870662689209,'{"top": [{"label": "green", "index": 1, "score": 0.994870662689209}, {"label": "red", "index": 0, "score": 0.0025646635331213474}, {"label": "blue", "index": 2, "score": 0.0025646635331213474}]}',NULL,NULL,NULL);
INSERT INTO "infer_object_predictions" VALUES('3','73d4266551521c08',0,'blue',0.994870662689209,'{"top": [{"label": "blue", "index": 2, "score": 0.994870662689209}, {"label": "red", "index": 0, "score": 0.0025646635331213474}, {"label": "green", "index": 1, "score": 0.0025646635331213474}]}',NULL,NULL,NULL);
INSERT INTO "infer_object_predictions" VALUES('4','73d4266551521c08',0,'red',0.994870662689209,'{"top": [{"label": "red", "index": 0, "score": 0.994870662689209}, {"label": "green", "index": 1, "score": 0.0025646635331213474}, {"label": "blue", "index": 2, "score": 0.0025646635331213474}]}',NULL,NULL,NULL);
INSERT INTO "infer_object_predictions" VALUES('2','01de057d1de0ee00',0,NULL,NULL,'{}',X'F1F0703FDFDCDC40F1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('3','01de057d1de0ee00',0,NULL,NULL,'{}',X'F1F0703FF1F0703FDFDCDC40','float32',3);
INSERT INTO "infer_object_predictions" VALUES('3','01de057d1de0ee00',1,NULL,NULL,'{}',X'DFDCDC40F1F0703FF1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('4','01de057d1de0ee00',0,NULL,NULL,'{}',X'DFDCDC40F1F0703FF1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('4','01de057d1de0ee00',1,NULL,NULL,'{}',X'F1F0703FDFDCDC40F1F0703F','float32',3);
INSERT INTO "infer_object_predictions" VALUES('4','01de057d1de0ee00',2,NULL,NULL,'{}',X'F1F0703FF1F0703FDFDCDC40','float32',3);
CREATE TABLE infer_objects (
	image_id VARCHAR(512) NOT NULL, 
	model_id VARCHAR(64) NOT NULL, 
	object INTEGER NOT NULL, 
	label VARCHAR NOT NULL, 
	class_index INTEGER NOT NULL, 
	score DOUBLE NOT NULL, 
	x DOUBLE NOT NULL, 
	y DOUBLE NOT NULL, 
	width DOUBLE NOT NULL, 
	height DOUBLE NOT NULL, 
	PRIMARY KEY (image_id, model_id, object)
);
INSERT INTO "infer_objects" VALUES('5','91ff8e45c6e77eca',0,'animal',0,9.59999978542327880859e-01,0.0,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('5','91ff8e45c6e77eca',1,'vehicle',1,8.99999976158142089843e-01,0.265625,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('5','91ff8e45c6e77eca',2,'animal',0,8.39999973773956298828e-01,0.515625,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('5','91ff8e45c6e77eca',3,'vehicle',1,7.79999971389770507812e-01,0.8828125,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('2','91ff8e45c6e77eca',0,'animal',0,9.59999978542327880859e-01,0.0,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('3','91ff8e45c6e77eca',0,'animal',0,9.59999978542327880859e-01,0.0,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('3','91ff8e45c6e77eca',1,'vehicle',1,8.99999976158142089843e-01,0.265625,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('4','91ff8e45c6e77eca',0,'animal',0,9.59999978542327880859e-01,0.0,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('4','91ff8e45c6e77eca',1,'vehicle',1,8.99999976158142089843e-01,0.265625,0.0,0.1171875,0.125);
INSERT INTO "infer_objects" VALUES('4','91ff8e45c6e77eca',2,'animal',0,8.39999973773956298828e-01,0.515625,0.0,0.1171875,0.125);
CREATE TABLE infer_predictions (
	image_id VARCHAR(512) NOT NULL, 
	model_id VARCHAR(64) NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	variant VARCHAR(64) NOT NULL, 
	label TEXT, 
	score DOUBLE, 
	output JSON NOT NULL, 
	vector BLOB, 
	vector_dtype VARCHAR(16), 
	vector_dim INTEGER, 
	sha256 VARCHAR(64), 
	created_at DATETIME NOT NULL, 
	width INTEGER, 
	height INTEGER, 
	num_objects INTEGER, 
	location VARCHAR, 
	size BIGINT, 
	modified DOUBLE, 
	detector_id VARCHAR(64), 
	PRIMARY KEY (image_id, model_id)
);
INSERT INTO "infer_predictions" VALUES('5','91ff8e45c6e77eca','20261126T005948-db7ff1','cpu-openvino-fp32','animal',9.59999978542327880859e-01,'{"min_score": 0.05}',NULL,NULL,NULL,'525d2c93ae8e6d91e4f69e4b26d0244b415285513a1e53467d4f7d8bd712d896','2026-11-26 00:59:49.942633',128,96,4,'/srv/photos/004.png',377,1.79565475255563807488e+09,NULL);
INSERT INTO "infer_predictions" VALUES('5','73d4266551521c08','20261126T005948-a99cbf','cpu-openvino-fp32','green',0.994870662689209,'{}',NULL,NULL,NULL,'525d2c93ae8e6d91e4f69e4b26d0244b415285513a1e53467d4f7d8bd712d896','2026-11-26 00:59:49.973857',128,96,1,'/srv/photos/004.png',377,1.79565475255563807488e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('5','01de057d1de0ee00','20261126T005948-6c2aee','cpu-openvino-fp32',NULL,NULL,'{}',NULL,NULL,NULL,'525d2c93ae8e6d91e4f69e4b26d0244b415285513a1e53467d4f7d8bd712d896','2026-11-26 00:59:49.974586',128,96,4,'/srv/photos/004.png',377,1.79565475255563807488e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('1','91ff8e45c6e77eca','20261126T005948-db7ff1','cpu-openvino-fp32',NULL,NULL,'{"min_score": 0.05}',NULL,NULL,NULL,'e24b4e550188063fee5d1ecac71d5aa794e8cb2752b19b233f0f1bc91e2ad6d9','2026-11-26 00:59:50.199766',128,96,0,'/srv/photos/000.png',329,1.79565475254057121271e+09,NULL);
INSERT INTO "infer_predictions" VALUES('2','91ff8e45c6e77eca','20261126T005948-db7ff1','cpu-openvino-fp32','animal',9.59999978542327880859e-01,'{"min_score": 0.05}',NULL,NULL,NULL,'475381b154452b701d31d4f4758b84a6b93415a4874e08de25993411634ef039','2026-11-26 00:59:50.199766',128,96,1,'/srv/photos/001.png',346,1.7956547525411896706e+09,NULL);
INSERT INTO "infer_predictions" VALUES('3','91ff8e45c6e77eca','20261126T005948-db7ff1','cpu-openvino-fp32','animal',9.59999978542327880859e-01,'{"min_score": 0.05}',NULL,NULL,NULL,'bc177321a8e52e04299977f5bf1bcb7dceafb89c1e88991f8f69cea88e42b93a','2026-11-26 00:59:50.199766',128,96,2,'/srv/photos/002.png',365,1.79565475254175662992e+09,NULL);
INSERT INTO "infer_predictions" VALUES('4','91ff8e45c6e77eca','20261126T005948-db7ff1','cpu-openvino-fp32','animal',9.59999978542327880859e-01,'{"min_score": 0.05}',NULL,NULL,NULL,'383bedb923f61f8ae7688a207a1f003f6064b4ab7e8ce143e635a1e098f160c5','2026-11-26 00:59:50.199766',128,96,3,'/srv/photos/003.png',372,1.79565475254231500619e+09,NULL);
INSERT INTO "infer_predictions" VALUES('1','73d4266551521c08','20261126T005948-a99cbf','cpu-openvino-fp32',NULL,NULL,'{}',NULL,NULL,NULL,'e24b4e550188063fee5d1ecac71d5aa794e8cb2752b19b233f0f1bc91e2ad6d9','2026-11-26 00:59:50.200688',128,96,0,'/srv/photos/000.png',329,1.79565475254057121271e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('2','73d4266551521c08','20261126T005948-a99cbf','cpu-openvino-fp32','green',0.994870662689209,'{}',NULL,NULL,NULL,'475381b154452b701d31d4f4758b84a6b93415a4874e08de25993411634ef039','2026-11-26 00:59:50.200688',128,96,1,'/srv/photos/001.png',346,1.7956547525411896706e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('3','73d4266551521c08','20261126T005948-a99cbf','cpu-openvino-fp32','blue',0.994870662689209,'{}',NULL,NULL,NULL,'bc177321a8e52e04299977f5bf1bcb7dceafb89c1e88991f8f69cea88e42b93a','2026-11-26 00:59:50.200688',128,96,1,'/srv/photos/002.png',365,1.79565475254175662992e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('4','73d4266551521c08','20261126T005948-a99cbf','cpu-openvino-fp32','red',0.994870662689209,'{}',NULL,NULL,NULL,'383bedb923f61f8ae7688a207a1f003f6064b4ab7e8ce143e635a1e098f160c5','2026-11-26 00:59:50.200688',128,96,1,'/srv/photos/003.png',372,1.79565475254231500619e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('1','01de057d1de0ee00','20261126T005948-6c2aee','cpu-openvino-fp32',NULL,NULL,'{}',NULL,NULL,NULL,'e24b4e550188063fee5d1ecac71d5aa794e8cb2752b19b233f0f1bc91e2ad6d9','2026-11-26 00:59:50.201154',128,96,0,'/srv/photos/000.png',329,1.79565475254057121271e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('2','01de057d1de0ee00','20261126T005948-6c2aee','cpu-openvino-fp32',NULL,NULL,'{}',NULL,NULL,NULL,'475381b154452b701d31d4f4758b84a6b93415a4874e08de25993411634ef039','2026-11-26 00:59:50.201154',128,96,1,'/srv/photos/001.png',346,1.7956547525411896706e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('3','01de057d1de0ee00','20261126T005948-6c2aee','cpu-openvino-fp32',NULL,NULL,'{}',NULL,NULL,NULL,'bc177321a8e52e04299977f5bf1bcb7dceafb89c1e88991f8f69cea88e42b93a','2026-11-26 00:59:50.201154',128,96,2,'/srv/photos/002.png',365,1.79565475254175662992e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('4','01de057d1de0ee00','20261126T005948-6c2aee','cpu-openvino-fp32',NULL,NULL,'{}',NULL,NULL,NULL,'383bedb923f61f8ae7688a207a1f003f6064b4ab7e8ce143e635a1e098f160c5','2026-11-26 00:59:50.201154',128,96,3,'/srv/photos/003.png',372,1.79565475254231500619e+09,'91ff8e45c6e77eca');
INSERT INTO "infer_predictions" VALUES('5','05af96a26ecdbc60','20261126T010000-f76512','cpu-openvino-fp32','green',3.53108763694763183593e-01,'{"top": [{"label": "green", "index": 1, "score": 0.3531087636947632}, {"label": "red", "index": 0, "score": 0.3234456181526184}, {"label": "blue", "index": 2, "score": 0.3234456181526184}]}',NULL,NULL,NULL,'525d2c93ae8e6d91e4f69e4b26d0244b415285513a1e53467d4f7d8bd712d896','2026-11-26 01:00:01.743820',128,96,NULL,'/srv/photos/004.png',377,1.79565475255563807488e+09,NULL);
INSERT INTO "infer_predictions" VALUES('1','05af96a26ecdbc60','20261126T010000-f76512','cpu-openvino-fp32','red',3.33333343267440795898e-01,'{"top": [{"label": "red", "index": 0, "score": 0.3333333432674408}, {"label": "green", "index": 1, "score": 0.3333333432674408}, {"label": "blue", "index": 2, "score": 0.3333333432674408}]}',NULL,NULL,NULL,'e24b4e550188063fee5d1ecac71d5aa794e8cb2752b19b233f0f1bc91e2ad6d9','2026-11-26 01:00:01.765807',128,96,NULL,'/srv/photos/000.png',329,1.79565475254057121271e+09,NULL);
INSERT INTO "infer_predictions" VALUES('2','05af96a26ecdbc60','20261126T010000-f76512','cpu-openvino-fp32','green',3.53052735328674316406e-01,'{"top": [{"label": "green", "index": 1, "score": 0.3530527353286743}, {"label": "red", "index": 0, "score": 0.32347363233566284}, {"label": "blue", "index": 2, "score": 0.32347363233566284}]}',NULL,NULL,NULL,'475381b154452b701d31d4f4758b84a6b93415a4874e08de25993411634ef039','2026-11-26 01:00:01.765807',128,96,NULL,'/srv/photos/001.png',346,1.7956547525411896706e+09,NULL);
INSERT INTO "infer_predictions" VALUES('3','05af96a26ecdbc60','20261126T010000-f76512','cpu-openvino-fp32','blue',0.342936247587204,'{"top": [{"label": "blue", "index": 2, "score": 0.342936247587204}, {"label": "red", "index": 0, "score": 0.34293612837791443}, {"label": "green", "index": 1, "score": 0.3141276240348816}]}',NULL,NULL,NULL,'bc177321a8e52e04299977f5bf1bcb7dceafb89c1e88991f8f69cea88e42b93a','2026-11-26 01:00:01.765807',128,96,NULL,'/srv/photos/002.png',365,1.79565475254175662992e+09,NULL);
INSERT INTO "infer_predictions" VALUES('4','05af96a26ecdbc60','20261126T010000-f76512','cpu-openvino-fp32','red',3.33387821912765502929e-01,'{"top": [{"label": "red", "index": 0, "score": 0.3333878219127655}, {"label": "green", "index": 1, "score": 0.33330610394477844}, {"label": "blue", "index": 2, "score": 0.33330610394477844}]}',NULL,NULL,NULL,'383bedb923f61f8ae7688a207a1f003f6064b4ab7e8ce143e635a1e098f160c5','2026-11-26 01:00:01.765807',128,96,NULL,'/srv/photos/003.png',372,1.79565475254231500619e+09,NULL);
CREATE TABLE infer_rejections (
	image_id VARCHAR(512) NOT NULL, 
	model_id VARCHAR(64) NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	reason VARCHAR(32) NOT NULL, 
	detail TEXT NOT NULL, 
	stage VARCHAR(16) NOT NULL, 
	attempts INTEGER NOT NULL, 
	location TEXT NOT NULL, 
	size BIGINT, 
	modified DOUBLE, 
	sha256 VARCHAR(64), 
	decoder TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	detector_id VARCHAR(64), 
	PRIMARY KEY (image_id, model_id)
);
INSERT INTO "infer_rejections" VALUES('6','91ff8e45c6e77eca','20261126T005948-db7ff1','unsupported_format','none of JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF: begins 6e 6f 20 70 69 63 74 75','decode',1,'/srv/photos/broken.jpg',200,1.79565475268869018552e+09,'fd4b3f2b74ee99bd5805e439ca5b91c943d3ec19c9360fba62da3a3bd2b865ab','libjpeg-turbo (PyTurboJPEG 1.8.3), Pillow 13.0.0 (libjpeg-turbo 3.2.0), libavif 1.4.2, pi-heif 1.4.0 (libheif 1.23.0)','2026-11-26 00:59:50.207623',NULL);
INSERT INTO "infer_rejections" VALUES('6','73d4266551521c08','20261126T005948-a99cbf','unsupported_format','none of JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF: begins 6e 6f 20 70 69 63 74 75','decode',1,'/srv/photos/broken.jpg',200,1.79565475268869018552e+09,'fd4b3f2b74ee99bd5805e439ca5b91c943d3ec19c9360fba62da3a3bd2b865ab','libjpeg-turbo (PyTurboJPEG 1.8.3), Pillow 13.0.0 (libjpeg-turbo 3.2.0), libavif 1.4.2, pi-heif 1.4.0 (libheif 1.23.0)','2026-11-26 00:59:50.208765','91ff8e45c6e77eca');
INSERT INTO "infer_rejections" VALUES('6','01de057d1de0ee00','20261126T005948-6c2aee','unsupported_format','none of JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF: begins 6e 6f 20 70 69 63 74 75','decode',1,'/srv/photos/broken.jpg',200,1.79565475268869018552e+09,'fd4b3f2b74ee99bd5805e439ca5b91c943d3ec19c9360fba62da3a3bd2b865ab','libjpeg-turbo (PyTurboJPEG 1.8.3), Pillow 13.0.0 (libjpeg-turbo 3.2.0), libavif 1.4.2, pi-heif 1.4.0 (libheif 1.23.0)','2026-11-26 00:59:50.215848','91ff8e45c6e77eca');
INSERT INTO "infer_rejections" VALUES('6','05af96a26ecdbc60','20261126T010000-f76512','unsupported_format','none of JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC and AVIF: begins 6e 6f 20 70 69 63 74 75','decode',1,'/srv/photos/broken.jpg',200,1.79565475268869018552e+09,'fd4b3f2b74ee99bd5805e439ca5b91c943d3ec19c9360fba62da3a3bd2b865ab','libjpeg-turbo (PyTurboJPEG 1.8.3), Pillow 13.0.0 (libjpeg-turbo 3.2.0), libavif 1.4.2, pi-heif 1.4.0 (libheif 1.23.0)','2026-11-26 01:00:01.779624',NULL);
CREATE TABLE infer_runs (
	id VARCHAR(64) NOT NULL, 
	day DATE NOT NULL, 
	time_zone VARCHAR(64) NOT NULL, 
	interval_start DATETIME NOT NULL, 
	interval_end DATETIME NOT NULL, 
	model VARCHAR(128) NOT NULL, 
	model_id VARCHAR(64) NOT NULL, 
	variant VARCHAR(64) NOT NULL, 
	executor VARCHAR(16) NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	process VARCHAR(64) NOT NULL, 
	versions JSON NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	selected INTEGER NOT NULL, 
	predicted INTEGER NOT NULL, 
	rejected INTEGER NOT NULL, 
	reasons JSON, 
	stages JSON, 
	seconds DOUBLE, 
	images_per_second DOUBLE, 
	limit_images_per_second DOUBLE, 
	exit_code INTEGER, 
	error TEXT, 
	throughput JSON, 
	source_id INTEGER, 
	variant_sha256 VARCHAR(64), 
	last_commit VARCHAR(16), 
	PRIMARY KEY (id)
);
INSERT INTO "infer_runs" VALUES('20261126T005948-6c2aee','2026-11-20','UTC','2026-11-20 00:00:00.000000','2026-11-21 00:00:00.000000','vectors','01de057d1de0ee00','cpu-openvino-fp32','cpu','cpu','host','1@1@boot','{"infer_app": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu", "openvino": "2026.4.1", "numpy": "2.4.6", "pillow": "13.0.0", "pyturbojpeg": "1.8.3", "cykooz_resizer": "4.0.1", "pi_heif": "1.4.0", "cpu": "AMD EPYC"}','done','2026-11-26 00:59:48.121000','2026-11-26 00:59:50.216000','2026-11-26 00:59:50.266000',6,5,1,'{"unsupported_format": 1}','{"select": 1.6720820000000192, "read": 0.20601583333332749, "decode": 0.41448399999999735, "transform": 0.4764646666666668, "collate": 0.019952833333331903, "copy": 0.0, "model": 0.5163015000000012, "outputs": 0.471460500000002, "write": 1.2535786666666808}',1.84401019800043286522e+00,3.25377810085114926863e+00,3.41803139165599930045e+02,0,NULL,'{"steady_images_per_second": null, "share_of_limit": null, "limits": {"cores": 397.58743941761185, "workers": 950.2635239129095, "database": 341.80313916559993}, "limited_by": null, "advice": null, "walls": {"select": 6.849341833306728, "read": 0.2088486667162215, "decode": 0.41670550005316426, "transform": 9.015891666725414, "collate": 0.02101950015761152, "copy": 0.0, "model": 0.519837166545282, "outputs": 21.355195499988138, "write": 9.811745166795541}, "waits": {"select": 0.0, "read": 0.0, "write": 0.0}, "num_cores": 2, "num_workers": 2, "passed_over": {"cpu-openvino-bf16": "bf16 is not chosen: --precision half", "cpu-torchscript": "slower here: 0.02 ms per image"}, "nodes": {}, "nearly_black": 0}',1,'d96cf2bebaa9b23ad0e82a3e66bd33970d248b1128c3af5d00ae1686a3e318a5','7343eaec617b2019');
INSERT INTO "infer_runs" VALUES('20261126T005948-a99cbf','2026-11-20','UTC','2026-11-20 00:00:00.000000','2026-11-21 00:00:00.000000','species','73d4266551521c08','cpu-openvino-fp32','cpu','cpu','host','1@1@boot','{"infer_app": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu", "openvino": "2026.4.1", "numpy": "2.4.6", "pillow": "13.0.0", "pyturbojpeg": "1.8.3", "cykooz_resizer": "4.0.1", "pi_heif": "1.4.0", "cpu": "AMD EPYC"}','done','2026-11-26 00:59:48.187000','2026-11-26 00:59:50.215000','2026-11-26 00:59:50.265000',6,5,1,'{"unsupported_format": 1}','{"select": 1.6720820000000192, "read": 0.20601583333332749, "decode": 0.41448399999999735, "transform": 0.4764646666666668, "collate": 0.019952833333331903, "copy": 0.0, "model": 0.5163015000000012, "outputs": 0.471460500000002, "write": 1.2535786666666808}',1.84213950899993506027e+00,3.25708230602865356217e+00,3.41803139165599930045e+02,0,NULL,'{"steady_images_per_second": null, "share_of_limit": null, "limits": {"cores": 397.58743941761185, "workers": 950.2635239129095, "database": 341.80313916559993}, "limited_by": null, "advice": null, "walls": {"select": 6.849341833306728, "read": 0.2088486667162215, "decode": 0.41670550005316426, "transform": 9.015891666725414, "collate": 0.02101950015761152, "copy": 0.0, "model": 0.519837166545282, "outputs": 21.355195499988138, "write": 9.811745166795541}, "waits": {"select": 0.0, "read": 0.0, "write": 0.0}, "num_cores": 2, "num_workers": 2, "passed_over": {"cpu-openvino-bf16": "bf16 is not chosen: --precision half", "cpu-torchscript": "slower here: 0.02 ms per image"}, "nodes": {}, "nearly_black": 0}',1,'d42c6ced7386e502c6ceb959e5e1e21deeaf6431cf952674f042bd3e0891a2af','a60fda7993fb4f81');
INSERT INTO "infer_runs" VALUES('20261126T005948-db7ff1','2026-11-20','UTC','2026-11-20 00:00:00.000000','2026-11-21 00:00:00.000000','cells','91ff8e45c6e77eca','cpu-openvino-fp32','cpu','cpu','host','1@1@boot','{"infer_app": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu", "openvino": "2026.4.1", "numpy": "2.4.6", "pillow": "13.0.0", "pyturbojpeg": "1.8.3", "cykooz_resizer": "4.0.1", "pi_heif": "1.4.0", "cpu": "AMD EPYC"}','done','2026-11-26 00:59:48.206000','2026-11-26 00:59:50.208000','2026-11-26 00:59:50.250000',6,5,1,'{"unsupported_format": 1}','{"select": 1.6720820000000192, "read": 0.20601583333332749, "decode": 0.41448399999999735, "transform": 0.4764646666666668, "collate": 0.019952833333331903, "copy": 0.0, "model": 0.5163015000000012, "outputs": 0.471460500000002, "write": 1.2535786666666808}',1.82563683800071885343e+00,3.28652439253509287553e+00,3.41803139165599930045e+02,0,NULL,'{"steady_images_per_second": null, "share_of_limit": null, "limits": {"cores": 397.58743941761185, "workers": 950.2635239129095, "database": 341.80313916559993}, "limited_by": null, "advice": null, "walls": {"select": 6.849341833306728, "read": 0.2088486667162215, "decode": 0.41670550005316426, "transform": 9.015891666725414, "collate": 0.02101950015761152, "copy": 0.0, "model": 0.519837166545282, "outputs": 21.355195499988138, "write": 9.811745166795541}, "waits": {"select": 0.0, "read": 0.0, "write": 0.0}, "num_cores": 2, "num_workers": 2, "passed_over": {"cpu-openvino-bf16": "bf16 is not chosen: --precision half", "cpu-torchscript": "slower here: 0.46 ms per image"}, "nodes": {}, "nearly_black": 0}',1,'9a8c513b50d1f45e890fefc20bfe9097c8b0350234a9bf8467ec434cf3371be2','ee8a09ed352456a1');
INSERT INTO "infer_runs" VALUES('20261126T010000-f76512','2026-11-20','UTC','2026-11-20 00:00:00.000000','2026-11-21 00:00:00.000000','colors','05af96a26ecdbc60','cpu-openvino-fp32','cpu','cpu','host','1@1@boot','{"infer_app": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu", "openvino": "2026.4.1", "numpy": "2.4.6", "pillow": "13.0.0", "pyturbojpeg": "1.8.3", "cykooz_resizer": "4.0.1", "pi_heif": "1.4.0", "cpu": "AMD EPYC"}','done','2026-11-26 01:00:00.654000','2026-11-26 01:00:01.780000','2026-11-26 01:00:01.786000',6,5,1,'{"unsupported_format": 1}','{"select": 0.843407833333328, "read": 0.20364583333333752, "decode": 0.6078680000000022, "transform": 0.1995755000000025, "collate": 0.018427333333332258, "copy": 0.0, "model": 0.13082933333333213, "outputs": 0.10562683333333507, "write": 0.5169043333333271}',9.24113617999864800367e-01,6.49270812931671148504e+00,7.351253811472012103e+02,0,NULL,'{"steady_images_per_second": null, "share_of_limit": null, "limits": {"cores": 761.531973871839, "workers": 1579.8127316318034, "database": 735.1253811472012}, "limited_by": null, "advice": null, "walls": {"select": 2.949584333388581, "read": 0.20829116632133568, "decode": 1.991685166710037, "transform": 3.9472434999273296, "collate": 0.019477166461001616, "copy": 0.0, "model": 0.13161716681982702, "outputs": 0.10632449978705456, "write": 5.498452000059236}, "waits": {"select": 0.0, "read": 0.0, "write": 0.0}, "num_cores": 2, "num_workers": 2, "passed_over": {"cpu-openvino-bf16": "bf16 is not chosen: --precision half", "cpu-torchscript": "slower here: 0.01 ms per image"}, "nodes": {}, "nearly_black": 0}',1,'3f28837a90021ec77d2cbf89e09bb0bb2a464bfe2e5306aea09ff8c4c2f57bc1','36422a58e11703dd');
CREATE TABLE infer_sources (
	id INTEGER NOT NULL, 
	"database" TEXT, 
	relation TEXT NOT NULL, 
	id_column TEXT NOT NULL, 
	location_column TEXT, 
	base TEXT, 
	first_used_at DATETIME NOT NULL, 
	forgotten_before DATETIME, 
	PRIMARY KEY (id)
);
INSERT INTO "infer_sources" VALUES(1,NULL,'infer_images','id','location',NULL,'2026-11-26 00:59:48.085000',NULL);
CREATE TABLE infer_thresholds (
	model VARCHAR(128) NOT NULL, 
	label VARCHAR(512) NOT NULL, 
	threshold DOUBLE NOT NULL, 
	PRIMARY KEY (model, label)
);
INSERT INTO "infer_thresholds" VALUES('species','',0.4);
CREATE INDEX ix_infer_images_queued_at ON infer_images (queued_at) WHERE queued_at IS NOT NULL;
CREATE INDEX ix_infer_images_added_at_id ON infer_images (added_at, id);
CREATE INDEX ix_infer_runs_day_model_id ON infer_runs (day, model_id);
CREATE VIEW infer_current_predictions AS 
SELECT m.name AS model, p.image_id, p.model_id, p.run_id, p.variant, p.label, p.score, p.output, p.vector, p.vector_dtype, p.vector_dim, p.sha256, p.created_at, p.width, p.height, p.num_objects, p.location, p.size, p.modified, p.detector_id
FROM infer_predictions p
JOIN infer_models m ON m.id = p.model_id

WHERE COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND NOT EXISTS (
    SELECT 1
    FROM infer_predictions preferred
    JOIN infer_models n ON n.id = preferred.model_id
    WHERE preferred.image_id = p.image_id AND n.name = m.name
      AND (COALESCE(n.in_use_since, n.used_until) > COALESCE(m.in_use_since, m.used_until)
        OR (COALESCE(n.in_use_since, n.used_until) = COALESCE(m.in_use_since, m.used_until) AND n.id > m.id))
);
CREATE VIEW infer_current_objects AS 
SELECT m.name AS model, p.image_id, p.model_id, p.object, p.label, p.class_index, p.score, p.x, p.y, p.width, p.height
FROM infer_objects p
JOIN infer_models m ON m.id = p.model_id

WHERE COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND NOT EXISTS (
    SELECT 1
    FROM infer_predictions preferred
    JOIN infer_models n ON n.id = preferred.model_id
    WHERE preferred.image_id = p.image_id AND n.name = m.name
      AND (COALESCE(n.in_use_since, n.used_until) > COALESCE(m.in_use_since, m.used_until)
        OR (COALESCE(n.in_use_since, n.used_until) = COALESCE(m.in_use_since, m.used_until) AND n.id > m.id))
);
CREATE VIEW infer_shown_objects AS SELECT * FROM infer_current_objects o WHERE o.score >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = o.model AND t.label = o.label),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = o.model AND t.label = ''),
    0
);
CREATE VIEW infer_shown_labels AS 
SELECT m.name AS model, p.image_id, p.model_id, json_extract(e.value, '$.label') AS label, json_extract(e.value, '$.score') AS score
FROM infer_predictions p
JOIN infer_models m ON m.id = p.model_id
CROSS JOIN json_each(COALESCE(json_extract(p.output, '$.labels'), '[]')) e
WHERE COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND NOT EXISTS (
    SELECT 1
    FROM infer_predictions preferred
    JOIN infer_models n ON n.id = preferred.model_id
    WHERE preferred.image_id = p.image_id AND n.name = m.name
      AND (COALESCE(n.in_use_since, n.used_until) > COALESCE(m.in_use_since, m.used_until)
        OR (COALESCE(n.in_use_since, n.used_until) = COALESCE(m.in_use_since, m.used_until) AND n.id > m.id))
)
 AND json_extract(e.value, '$.score') >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = m.name AND t.label = json_extract(e.value, '$.label')),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = m.name AND t.label = ''),
    0
);
CREATE VIEW infer_current_crops AS 
SELECT m.name AS model, p.image_id, p.model_id, p.object, json_extract(m.manifest, '$.crop.of') AS detector, s.detector_id, d.x, d.y, d.width, d.height, d.label AS detected_label, d.score AS detected_score, p.label, p.score, p.output, p.vector, p.vector_dtype, p.vector_dim, s.location
FROM infer_object_predictions p
JOIN infer_models m ON m.id = p.model_id

JOIN infer_predictions s ON s.image_id = p.image_id AND s.model_id = p.model_id
JOIN infer_objects d ON d.image_id = p.image_id AND d.model_id = s.detector_id AND d.object = p.object

WHERE COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND NOT EXISTS (
    SELECT 1
    FROM infer_predictions preferred
    JOIN infer_models n ON n.id = preferred.model_id
    WHERE preferred.image_id = p.image_id AND n.name = m.name
      AND (COALESCE(n.in_use_since, n.used_until) > COALESCE(m.in_use_since, m.used_until)
        OR (COALESCE(n.in_use_since, n.used_until) = COALESCE(m.in_use_since, m.used_until) AND n.id > m.id))
);
CREATE VIEW infer_shown_crops AS SELECT c.model, c.image_id, c.model_id, c.object, c.detector, c.x, c.y, c.width, c.height, c.detected_label, c.detected_score, CASE
    WHEN c.label IS NULL THEN NULL
    WHEN c.score >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = c.label),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = ''),
    0
) AND NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = c.label AND g.depth = -1
    ) THEN c.label
    ELSE COALESCE((
    SELECT CASE WHEN json_extract(e.value, '$.score') >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = json_extract(e.value, '$.label')),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = ''),
    0
) THEN json_extract(e.value, '$.label') END
    FROM json_each(COALESCE(json_extract(c.output, '$.top'), json_extract(c.output, '$.labels'), '[]')) e
    WHERE NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = json_extract(e.value, '$.label') AND g.depth = -1
    )
    ORDER BY json_extract(e.value, '$.score') DESC, json_extract(e.value, '$.label') LIMIT 1
), (
    SELECT COALESCE(g.ancestor, json_extract(e.value, '$.label'))
    FROM json_each(COALESCE(json_extract(c.output, '$.top'), json_extract(c.output, '$.labels'), '[]')) e
    LEFT JOIN infer_label_groups g ON g.model = c.model AND g.label = json_extract(e.value, '$.label')
    LEFT JOIN infer_thresholds t ON t.model = c.model AND t.label = COALESCE(g.ancestor, json_extract(e.value, '$.label'))
    WHERE COALESCE(g.depth, 0) >= 0
    GROUP BY COALESCE(g.ancestor, json_extract(e.value, '$.label'))
    HAVING SUM(json_extract(e.value, '$.score')) >= COALESCE(
        MAX(t.threshold), (SELECT u.threshold FROM infer_thresholds u WHERE u.model = c.model AND u.label = ''), 0
    )
    ORDER BY MAX(COALESCE(g.depth, 0)) DESC, SUM(json_extract(e.value, '$.score')) DESC, COALESCE(g.ancestor, json_extract(e.value, '$.label')) LIMIT 1
))
END AS label, CASE
    WHEN c.label IS NULL THEN c.score
    WHEN c.score >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = c.label),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = ''),
    0
) AND NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = c.label AND g.depth = -1
    ) THEN c.score
    ELSE COALESCE((
    SELECT CASE WHEN json_extract(e.value, '$.score') >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = json_extract(e.value, '$.label')),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.model AND t.label = ''),
    0
) THEN json_extract(e.value, '$.score') END
    FROM json_each(COALESCE(json_extract(c.output, '$.top'), json_extract(c.output, '$.labels'), '[]')) e
    WHERE NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = json_extract(e.value, '$.label') AND g.depth = -1
    )
    ORDER BY json_extract(e.value, '$.score') DESC, json_extract(e.value, '$.label') LIMIT 1
), (
    SELECT SUM(json_extract(e.value, '$.score'))
    FROM json_each(COALESCE(json_extract(c.output, '$.top'), json_extract(c.output, '$.labels'), '[]')) e
    LEFT JOIN infer_label_groups g ON g.model = c.model AND g.label = json_extract(e.value, '$.label')
    LEFT JOIN infer_thresholds t ON t.model = c.model AND t.label = COALESCE(g.ancestor, json_extract(e.value, '$.label'))
    WHERE COALESCE(g.depth, 0) >= 0
    GROUP BY COALESCE(g.ancestor, json_extract(e.value, '$.label'))
    HAVING SUM(json_extract(e.value, '$.score')) >= COALESCE(
        MAX(t.threshold), (SELECT u.threshold FROM infer_thresholds u WHERE u.model = c.model AND u.label = ''), 0
    )
    ORDER BY MAX(COALESCE(g.depth, 0)) DESC, SUM(json_extract(e.value, '$.score')) DESC, COALESCE(g.ancestor, json_extract(e.value, '$.label')) LIMIT 1
))
END AS score, c.location FROM infer_current_crops c WHERE c.detected_score >= COALESCE(
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.detector AND t.label = c.detected_label),
    (SELECT t.threshold FROM infer_thresholds t WHERE t.model = c.detector AND t.label = ''),
    0
);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('infer_images',6);
COMMIT;
